#include "model/family.h"

#include <stdlib.h>
#include <string.h>

#include "store/config.h"

enum { MAX_TYPES = 64, ARENA_LIMIT = 1 << 30 };

static pawl_status find_family(const pawl_checkpoint *ck, const pawl_family **out, pawl_err *err)
{
    const char *type, *known[MAX_TYPES];
    size_t n = 0;
    PAWL_TRY(pawl__config_model_type(pawl__checkpoint_config(ck), &type, err));
    for (const pawl_family *const *f = pawl__families; *f; f++)
        for (const char *const *t = (*f)->model_types; *t; t++) {
            if (!strcmp(*t, type)) {
                *out = *f;
                return PAWL_OK;
            }
            if (n < MAX_TYPES) known[n++] = *t;
        }
    return pawl__config_check_type(type, known, n, err);
}

pawl_status pawl__net_open(pawl_checkpoint *ck, pawl_plan *plan, const pawl_net_options *opt, pawl_net **out,
                           pawl_err *err)
{
    *out = NULL;
    const pawl_family *family = NULL;
    pawl_status s = find_family(ck, &family, err);
    if (s != PAWL_OK) {
        if (err) pawl__fail_in(err, "%s/config.json", pawl__checkpoint_dir(ck));
        return s;
    }
    pawl_net *net = calloc(1, sizeof *net);
    if (net) net->arena = pawl__arena_create(ARENA_LIMIT);
    if (!net || !net->arena) {
        free(net);
        return pawl__fail(err, PAWL_ENOMEM, "out of memory");
    }
    net->family = family;
    net->plan = plan;
    net->opt = *opt;
    s = family->open(net, ck, err);
    if (s != PAWL_OK) {
        pawl__net_close(&net);
        return s;
    }
    pawl__checkpoint_warn_unused(ck);
    *out = net;
    return PAWL_OK;
}

void pawl__net_close(pawl_net **pnet)
{
    pawl_net *net = *pnet;
    if (!net) return;
    pawl__arena_destroy(&net->arena);
    free(net);
    *pnet = NULL;
}

const pawl_net_dims *pawl__net_dims(const pawl_net *net)
{
    return &net->dims;
}

const char *pawl__net_type(const pawl_net *net)
{
    return net->type;
}

const int64_t *pawl__net_eos(const pawl_net *net, int *n)
{
    *n = net->n_eos;
    return net->eos;
}

/* ---- state ---- */

static float *log_array(const pawl_net_dims *d, int32_t rows, int64_t width)
{
    return calloc((size_t)(d->rec_layers * rows * width) + 1, sizeof(float));
}

static pawl_status create_logs(const pawl_net_dims *d, pawl_net_state *st, pawl_err *err)
{
    int32_t rows = st->max_verify;
    st->log_conv = log_array(d, rows, d->conv_channels);
    st->log_k = log_array(d, rows, d->nk * d->dk);
    st->log_v = log_array(d, rows, d->nv * d->dv);
    st->log_decay = log_array(d, rows, d->nv);
    st->log_beta = log_array(d, rows, d->nv);
    if (st->log_conv && st->log_k && st->log_v && st->log_decay && st->log_beta) return PAWL_OK;
    return pawl__fail(err, PAWL_ENOMEM, "logs of %d verified rows: out of memory", rows);
}

static pawl_status create_scratch(const pawl_net_dims *d, int32_t rows, int poison, pawl_net_state *st, pawl_err *err)
{
    /* Each allocation is rounded up to 64 bytes, and each row may be a segment of its own. */
    size_t bytes = (size_t)rows * ((size_t)d->row_floats * sizeof(float) + sizeof(pawl_seg)) + (64 << 10);
    st->scratch = pawl__arena_create_fixed(bytes);
    if (!st->scratch)
        return pawl__fail(err, PAWL_ENOMEM, "scratch of %zu bytes for %d rows: out of memory", bytes, rows);
    pawl__arena_poison(st->scratch, poison);
    return PAWL_OK;
}

pawl_status pawl__net_state_create(const pawl_net *net, const pawl_net_state_options *opt, pawl_net_state **out,
                                   pawl_err *err)
{
    const pawl_net_dims *d = &net->dims;
    *out = NULL;
    pawl_net_state *st = calloc(1, sizeof *st);
    if (!st) return pawl__fail(err, PAWL_ENOMEM, "out of memory");
    st->max_rows = opt->max_rows;
    st->max_verify = opt->max_verify;
    st->probe = opt->probe;
    st->probe_user = opt->probe_user;
    pawl_status s = pawl__kv_create(d->kv_layers, d->kv_heads, PAWL_KV_PAGE, d->head_dim, opt->n_pages, &st->kv, err);
    if (s == PAWL_OK)
        s = pawl__slots_create(d->rec_layers, d->conv_channels * 3, d->nv * d->dk * d->dv, opt->n_slots, &st->slots,
                               err);
    if (s == PAWL_OK) s = create_logs(d, st, err);
    if (s == PAWL_OK) s = create_scratch(d, opt->max_rows, opt->poison, st, err);
    if (s != PAWL_OK) {
        pawl__net_state_destroy(&st);
        return s;
    }
    *out = st;
    return PAWL_OK;
}

void pawl__net_state_destroy(pawl_net_state **pst)
{
    pawl_net_state *st = *pst;
    if (!st) return;
    pawl__kv_destroy(&st->kv);
    pawl__slots_destroy(&st->slots);
    pawl__arena_destroy(&st->scratch);
    free(st->log_conv);
    free(st->log_k);
    free(st->log_v);
    free(st->log_decay);
    free(st->log_beta);
    free(st);
    *pst = NULL;
}

pawl_kv *pawl__net_kv(const pawl_net_state *st)
{
    return st->kv;
}

pawl_slots *pawl__net_slots(const pawl_net_state *st)
{
    return st->slots;
}

/* ---- steps ---- */

static pawl_step begin(const pawl_net *net, pawl_net_state *st, const pawl_forward *f, pawl_exec *ex, pawl_err *err)
{
    pawl__arena_release(st->scratch, 0);
    return (pawl_step){.st = st,
                       .ex = ex,
                       .err = err,
                       .m = f->m,
                       .segs = f->segs,
                       .n_segs = f->n_segs,
                       .pages = f->pages,
                       .cancel = f->cancel,
                       .check_nan = net->opt.check_nan};
}

static pawl_status check_batch(const pawl_net_state *st, const pawl_forward *f, pawl_err *err)
{
    int64_t rows = 0;
    for (int32_t i = 0; i < f->n_segs; i++) {
        const pawl_seg *g = &f->segs[i];
        if (g->rows < 0 || g->row0 != rows || g->pos0 < 0 || (g->verify && g->log0 + g->rows > st->max_verify))
            return pawl__fail(err, PAWL_EINTERNAL, "batch segment %d: rows %d from %d at position %d do not fit", i,
                              g->rows, g->row0, g->pos0);
        rows += g->rows;
    }
    if (rows != f->m || f->m > st->max_rows)
        return pawl__fail(err, PAWL_EINTERNAL, "batch of %d rows: segments have %lld, at most %d fit", f->m,
                          (long long)rows, st->max_rows);
    return PAWL_OK;
}

pawl_status pawl__net_forward(const pawl_net *net, pawl_net_state *st, const pawl_forward *f, pawl_exec *ex,
                              pawl_err *err)
{
    PAWL_TRY(check_batch(st, f, err));
    pawl_step s = begin(net, st, f, ex, err);
    return net->family->forward(net, &s, f);
}

pawl_status pawl__net_draft(const pawl_net *net, pawl_net_state *st, const pawl_forward *f, pawl_exec *ex,
                            pawl_err *err)
{
    if (!net->dims.draft_layers)
        return pawl__fail(err, PAWL_EUNSUPPORTED, "%s: the model has no draft layer", net->type);
    PAWL_TRY(check_batch(st, f, err));
    pawl_step s = begin(net, st, f, ex, err);
    return net->family->draft(net, &s, f);
}

pawl_status pawl__net_commit(const pawl_net *net, pawl_net_state *st, const pawl_seg *segs, int32_t n_segs,
                             pawl_exec *ex, pawl_err *err)
{
    pawl_forward f = {.segs = segs, .n_segs = n_segs};
    for (int32_t i = 0; i < n_segs; i++) f.m += segs[i].rows;
    pawl_step s = begin(net, st, &f, ex, err);
    return net->family->commit(net, &s);
}
