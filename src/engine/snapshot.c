/* A session's state as bytes: for another session of the same model, in this or another process.
 *
 * Layout, little-endian: the header below, tokens int32 [n], pages of positions 0 .. done-1 (each as pawl__kv_save writes
 * it), the recurrent slot as pawl__slots_save writes it, hidden states [done - draft_done][H] that wait for the draft layer,
 * and XXH3-64 of all before it. The noise of sampling is a hash of seed and position, so no random state is kept. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static const char MAGIC[8] = "PAWLSES1";

typedef struct header {
    char magic[8];
    int64_t vocab, hidden, layers, kv_layers, kv_heads, head_dim, draft_layers, rec_layers, conv_channels, nv, dk, dv;
    uint64_t weight_bytes; /* with the sizes above: is it the same model? */
    int64_t n, done, draft_done, cold;
} header;

static header header_of(const pawl_session *s)
{
    const pawl_net_dims *d = pawl__net_dims(s->model->net);
    header h = {.vocab = d->vocab,
                .hidden = d->hidden,
                .layers = d->layers,
                .kv_layers = d->kv_layers,
                .kv_heads = d->kv_heads,
                .head_dim = d->head_dim,
                .draft_layers = d->draft_layers,
                .rec_layers = d->rec_layers,
                .conv_channels = d->conv_channels,
                .nv = d->nv,
                .dk = d->dk,
                .dv = d->dv,
                .weight_bytes = s->model->weight_bytes,
                .n = s->seq->n,
                .done = s->seq->done,
                .draft_done = s->seq->draft_done,
                .cold = s->seq->cold};
    memcpy(h.magic, MAGIC, sizeof h.magic);
    return h;
}

static int64_t pages_of(const header *h)
{
    return (h->done + PAWL_KV_PAGE - 1) / PAWL_KV_PAGE;
}

/* Hidden states that wait; none where the draft layer does not follow. */
static int64_t waiting_of(const header *h)
{
    return h->cold ? 0 : h->done - h->draft_done;
}

/* Bytes of the whole; h's numbers have been checked against a context. */
static size_t size_of(const pawl_session *s, const header *h)
{
    return sizeof *h + (size_t)h->n * sizeof(int32_t) + (size_t)pages_of(h) * pawl__kv_page_bytes(pawl__net_kv(s->st)) +
           pawl__slots_floats(pawl__net_slots(s->st)) * sizeof(float) +
           (size_t)(waiting_of(h) * h->hidden) * sizeof(float) + sizeof(XXH64_hash_t);
}

static char *put(char *at, const void *from, size_t n)
{
    memcpy(at, from, n);
    return at + n;
}

pawl_status pawl_session_save(const pawl_session *s, void **data, size_t *n, pawl_err *err)
{
    const pawl_seq *q = s->seq;
    header h = header_of(s);
    *data = NULL;
    *n = size_of(s, &h);
    char *out = malloc(*n), *at = out;
    size_t slot_floats = pawl__slots_floats(pawl__net_slots(s->st));
    float *slot = malloc(slot_floats * sizeof *slot + 1);
    if (!out || !slot) {
        free(out);
        free(slot);
        return pawl__fail(err, PAWL_ENOMEM, "session of %zu bytes: out of memory", *n);
    }
    at = put(at, &h, sizeof h);
    at = put(at, q->tokens, (size_t)h.n * sizeof *q->tokens);
    for (int64_t i = 0; i < pages_of(&h); i++) {
        pawl__kv_save(pawl__net_kv(s->st), q->pages[i], at);
        at += pawl__kv_page_bytes(pawl__net_kv(s->st));
    }
    pawl__slots_save(pawl__net_slots(s->st), q->slot, slot);
    at = put(at, slot, slot_floats * sizeof *slot);
    at = put(at, q->hidden, (size_t)(waiting_of(&h) * h.hidden) * sizeof(float));
    XXH64_hash_t sum = XXH3_64bits(out, (size_t)(at - out));
    put(at, &sum, sizeof sum);
    free(slot);
    *data = out;
    return PAWL_OK;
}

static pawl_status check_header(const pawl_session *s, const header *h, size_t n, pawl_err *err)
{
    header own = header_of(s);
    if (memcmp(h->magic, MAGIC, sizeof MAGIC) != 0)
        return pawl__fail(err, PAWL_EFORMAT, "saved session: does not begin with %.8s", MAGIC);
    if (memcmp(&h->vocab, &own.vocab, offsetof(header, n) - offsetof(header, vocab)) != 0)
        return pawl__fail(err, PAWL_EFORMAT, "saved session: of another model than %s", s->model->path);
    if (h->n < 0 || h->n > s->seq->context)
        return pawl__fail(err, PAWL_EFORMAT, "saved session: found %lld tokens, expected at most the context of %lld",
                          (long long)h->n, (long long)s->seq->context);
    if (h->done < 0 || h->done > h->n || h->draft_done < 0 || h->draft_done > h->done || (h->cold != 0 && h->cold != 1))
        return pawl__fail(err, PAWL_EFORMAT, "saved session: lengths %lld, %lld, %lld make no sense", (long long)h->n,
                          (long long)h->done, (long long)h->draft_done);
    if (waiting_of(h) > s->seq->room)
        return pawl__fail(err, PAWL_EFORMAT, "saved session: %lld hidden states wait, expected at most %lld",
                          (long long)waiting_of(h), (long long)s->seq->room);
    if (n != size_of(s, h))
        return pawl__fail(err, PAWL_EFORMAT, "saved session: found %zu bytes, expected %zu", n, size_of(s, h));
    return PAWL_OK;
}

pawl_status pawl_session_restore(pawl_session *s, const void *data, size_t n, pawl_err *err)
{
    header h;
    XXH64_hash_t sum;
    pawl_seq *q = s->seq;
    const char *at = data;
    if (n < sizeof h + sizeof sum)
        return pawl__fail(err, PAWL_EFORMAT, "saved session: found %zu bytes, expected at least %zu", n,
                          sizeof h + sizeof sum);
    memcpy(&h, at, sizeof h);
    PAWL_TRY(check_header(s, &h, n, err));
    memcpy(&sum, at + n - sizeof sum, sizeof sum);
    if (XXH3_64bits(at, n - sizeof sum) != sum)
        return pawl__fail(err, PAWL_EFORMAT, "saved session: the checksum does not fit the contents");
    at += sizeof h;
    for (int64_t i = 0; i < h.n; i++) {
        int32_t id;
        memcpy(&id, at + (size_t)i * sizeof id, sizeof id);
        if (id < 0 || id >= h.vocab)
            return pawl__fail(err, PAWL_EFORMAT, "saved session: token %lld is %d, expected 0 to %lld", (long long)i,
                              id, (long long)h.vocab - 1);
    }
    size_t slot_floats = pawl__slots_floats(pawl__net_slots(s->st));
    float *slot = malloc(slot_floats * sizeof *slot + 1);
    if (!slot) return pawl__fail(err, PAWL_ENOMEM, "saved session: out of memory");
    pawl__seq_reset(q);
    pawl_status st = pawl__seq_reserve(q, h.done, err);
    if (st != PAWL_OK) {
        free(slot);
        return st;
    }
    memcpy(q->tokens, at, (size_t)h.n * sizeof *q->tokens);
    at += (size_t)h.n * sizeof *q->tokens;
    for (int64_t i = 0; i < pages_of(&h); i++) {
        pawl__kv_load(pawl__net_kv(s->st), q->pages[i], at);
        at += pawl__kv_page_bytes(pawl__net_kv(s->st));
    }
    memcpy(slot, at, slot_floats * sizeof *slot);
    pawl__slots_load(pawl__net_slots(s->st), q->slot, slot);
    free(slot);
    at += slot_floats * sizeof *slot;
    memcpy(q->hidden, at, (size_t)(waiting_of(&h) * h.hidden) * sizeof(float));
    q->n = h.n;
    q->done = h.done;
    q->draft_done = h.draft_done;
    q->cold = (int)h.cold;
    return PAWL_OK;
}
