/* Scoring on the public API: rows of logits come in chunks and go straight to the file or into one number each. */
#include "tool/score.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "store/writer.h"

typedef struct sink {
    pawl_writer *w;
    FILE *draft; /* the draft layer's rows come between the target's, but follow them in the file */
    int64_t vocab;
    pawl_status status;
    pawl_err *err;
} sink;

static int write_rows(void *user, int draft, int64_t first, int64_t rows, const float *logits)
{
    (void)first;
    sink *k = user;
    size_t bytes = (size_t)rows * (size_t)k->vocab * sizeof *logits;
    if (draft) {
        if (fwrite(logits, 1, bytes, k->draft) != bytes)
            k->status = pawl__fail(k->err, PAWL_EIO, "temporary file for mtp_logits: %s", strerror(errno));
    } else {
        k->status = pawl__writer_put(k->w, logits, bytes, k->err);
    }
    return k->status != PAWL_OK;
}

static pawl_status append_draft(sink *k, pawl_err *err)
{
    char chunk[65536];
    size_t n;
    rewind(k->draft);
    while ((n = fread(chunk, 1, sizeof chunk, k->draft)) > 0) PAWL_TRY(pawl__writer_put(k->w, chunk, n, err));
    if (ferror(k->draft)) return pawl__fail(err, PAWL_EIO, "temporary file for mtp_logits: %s", strerror(errno));
    return PAWL_OK;
}

static pawl_status stream(sink *k, pawl_session *s, const int32_t *ids, size_t n, int with_draft, pawl_err *err)
{
    if (with_draft && !(k->draft = tmpfile()))
        return pawl__fail(err, PAWL_EIO, "temporary file for mtp_logits: %s", strerror(errno));
    pawl_status st = pawl_score(s, ids, n, with_draft, write_rows, k, err);
    if (k->status != PAWL_OK) return k->status; /* more telling than "cancelled", which our callback asked for */
    if (st == PAWL_OK && with_draft) st = append_draft(k, err);
    return st;
}

pawl_status pawl__score_write(pawl_session *s, int64_t vocab, const int32_t *ids, size_t n, int with_draft,
                              const char *path, pawl_err *err)
{
    if (n == 0) return pawl__fail(err, PAWL_EINVAL, "there are no tokens to score");
    pawl_err own = {0};
    sink k = {.vocab = vocab, .err = &own};
    const pawl_tensor_decl decls[] = {{"logits", PAWL_F32, 2, {(int64_t)n, vocab}},
                                      {"mtp_logits", PAWL_F32, 2, {(int64_t)n - 1, vocab}}};
    PAWL_TRY(pawl__writer_create(path, decls, with_draft ? 2 : 1, &k.w, err));
    pawl_status st = stream(&k, s, ids, n, with_draft, err);
    if (k.draft) fclose(k.draft);
    if (st == PAWL_OK) return pawl__writer_finish(&k.w, err);
    pawl__writer_abort(&k.w);
    if (k.status != PAWL_OK) return pawl__fail(err, k.status, "%s", own.text);
    return st;
}

typedef struct reader {
    const int32_t *ids;
    size_t n;
    int64_t vocab;
    double *logprob;
} reader;

static int read_rows(void *user, int draft, int64_t first, int64_t rows, const float *logits)
{
    reader *r = user;
    for (int64_t i = 0; i < rows && !draft; i++) {
        size_t next = (size_t)(first + i + 1);
        if (next >= r->n) break;
        const float *l = logits + i * r->vocab;
        double max = -INFINITY, sum = 0;
        for (int64_t v = 0; v < r->vocab; v++) max = (double)l[v] > max ? (double)l[v] : max;
        for (int64_t v = 0; v < r->vocab; v++) sum += exp((double)l[v] - max);
        r->logprob[next] = (double)l[r->ids[next]] - max - log(sum);
    }
    return 0;
}

pawl_status pawl__score_logprobs(pawl_session *s, int64_t vocab, const int32_t *ids, size_t n, double *logprob,
                                 pawl_err *err)
{
    if (n < 2)
        return pawl__fail(err, PAWL_EINVAL, "found %zu tokens, expected at least 2: the first has no prediction", n);
    reader r = {ids, n, vocab, logprob};
    logprob[0] = 0;
    return pawl_score(s, ids, n, 0, read_rows, &r, err);
}
