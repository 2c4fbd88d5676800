/* Opening a model: machine, policies, plan, weights, text. */
#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "kernels/list/list.h"
#include "token/template.h"

int pawl_abi_version(void)
{
    return PAWL_ABI_VERSION;
}

const char *pawl_version(void)
{
    return PAWL_VERSION;
}

void pawl_free(void *p)
{
    free(p);
}

void pawl__options_copy(void *dst, size_t dst_size, const void *src, size_t src_size)
{
    size_t n = src_size < dst_size ? src_size : dst_size;
    if (n > sizeof(size_t))
        memcpy((char *)dst + sizeof(size_t), (const char *)src + sizeof(size_t), n - sizeof(size_t));
}

static pawl_status read_policy(const pawl_kernel_options *given, pawl_policy *p, pawl_err *err)
{
    pawl_kernel_options o = PAWL_INIT(pawl_kernel_options);
    pawl__options_copy(&o, sizeof o, given, given->size);
    if (o.isa) PAWL_TRY(pawl__isa_level(o.isa, &p->isa_mask, err));
    if (o.deterministic) p->deterministic = 1;
    if (o.activations) {
        p->act_int8 = strcmp(o.activations, "int8") == 0;
        if (!p->act_int8 && strcmp(o.activations, "f32") != 0)
            return pawl__fail(err, PAWL_EINVAL, "activations: found \"%.40s\", expected f32 or int8", o.activations);
    }
    for (size_t i = 0; i < o.n_force; i++) PAWL_TRY(pawl__policy_force(p, o.force[i], &pawl__kernel_table, err));
    for (size_t i = 0; i < o.n_ban; i++) PAWL_TRY(pawl__policy_ban(p, o.ban[i], &pawl__kernel_table, err));
    return PAWL_OK;
}

/* From options to policies; the table's own strings are kept, the caller's are not. draft NULL: inherited. */
static pawl_status read_policies(const pawl_kernel_options *target, const pawl_kernel_options *draft,
                                 pawl_policy *out_target, pawl_policy *out_draft, pawl_err *err)
{
    *out_target = pawl__policy_default();
    if (target) PAWL_TRY(read_policy(target, out_target, err));
    *out_draft = pawl__policy_draft(out_target);
    if (draft) {
        /* What the user says of the draft layer is meant: it is no wish any more. */
        *out_draft = *out_target;
        out_draft->n_forces = 0;
        PAWL_TRY(read_policy(draft, out_draft, err));
        if (out_draft->act_int8 != out_target->act_int8)
            return pawl__fail(err, PAWL_EINVAL, "activations: the draft layer's differ from the model's");
    }
    return PAWL_OK;
}

typedef struct load_progress {
    void (*fn)(void *user, uint64_t done, uint64_t total);
    void *user;
    uint64_t total;
} load_progress;

static int report_progress(void *ctx, const char *what, double done)
{
    const load_progress *p = ctx;
    (void)what;
    p->fn(p->user, (uint64_t)(done * (double)p->total), p->total);
    return 0;
}

static pawl_status open_machine(pawl_model *m, const pawl_model_options *o, pawl_err *err)
{
    pawl__caps_probe(&m->caps);
    PAWL_TRY(read_policies(o->kernels, o->draft_kernels, &m->target, &m->draft, err));
    pawl_buf tuning = {0};
    pawl__tuning_path(&m->caps, &tuning);
    if (tuning.len && !tuning.failed) pawl__tuning_load(tuning.data, &pawl__kernel_table, &m->caps, &m->tuning);
    pawl__buf_free(&tuning);
    m->target.thresholds = m->draft.thresholds = &m->tuning.thresholds;
    int threads = o->threads > 0 ? o->threads : m->caps.cores > 0 ? m->caps.cores : 1;
    PAWL_TRY(pawl__pool_create(threads, &m->pool, err));
    m->exec.caps = &m->caps;
    m->exec.pool = m->pool;
    return pawl__plan_create(&pawl__kernel_table, &m->caps, &m->target, &m->draft, &m->exec, &m->plan, err);
}

static pawl_status open_weights(pawl_model *m, const char *path, const pawl_model_options *o, pawl_err *err)
{
    load_progress progress = {o->progress, o->progress_user, 1000};
    pawl_checkpoint_opts opts = {.progress = o->progress ? report_progress : NULL, .ctx = &progress};
    PAWL_TRY(pawl__checkpoint_open(path, &opts, &m->ck, err));
    pawl_net_options net = {.space = PAWL_SPACE_HOST, .check_nan = o->check_nan, .act_int8 = m->target.act_int8};
    pawl_status s = pawl__net_open(m->ck, m->plan, &net, &m->net, err);
    if (s != PAWL_OK) {
        /* what concerns a file or a tensor begins with the folder already; the plan's refusals do not know it */
        if (err && strncmp(err->text, path, strlen(path))) pawl__fail_in(err, "%s", path);
        return s;
    }
    for (size_t i = 0; i < pawl__checkpoint_count(m->ck); i++)
        if (pawl__checkpoint_used(m->ck, i)) m->weight_bytes += pawl__checkpoint_at(m->ck, i)->bytes;
    pawl__checkpoint_read_ahead(m->ck, m->caps.mem / 4 * 3);
    m->exec.scratch_size = pawl__plan_scratch(m->plan, PAWL_MAX_CHUNK, pawl__pool_threads(m->pool));
    if (m->exec.scratch_size && posix_memalign(&m->exec.scratch, 64, m->exec.scratch_size))
        return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory for %zu bytes of kernel scratch", path,
                          m->exec.scratch_size);
    return PAWL_OK;
}

static pawl_status open_text(pawl_model *m, const char *path, pawl_err *err)
{
    char file[4096];
    int n_eos;
    const int64_t *eos = pawl__net_eos(m->net, &n_eos);
    int32_t fallback[8];
    for (int i = 0; i < n_eos; i++) fallback[i] = (int32_t)eos[i];
    PAWL_TRY(pawl__genconfig_open(path, fallback, (unsigned)n_eos, &m->gen, err));
    PAWL_TRY(pawl__path_join(file, sizeof file, path, "tokenizer.json", err));
    if (!pawl__file_exists(file)) return PAWL_OK;
    PAWL_TRY(pawl__tokenizer_open(path, &m->tokenizer, err));
    int64_t vocab = pawl__net_dims(m->net)->vocab;
    if (pawl__tokenizer_size(m->tokenizer) > vocab)
        return pawl__fail(err, PAWL_EFORMAT, "%s: %d tokens, expected at most the model's vocab_size %lld", file,
                          pawl__tokenizer_size(m->tokenizer), (long long)vocab);
    pawl_template *t = NULL;
    m->has_template = pawl__template_open(path, 0, &t, NULL) != PAWL_EIO;
    pawl__template_destroy(&t);
    return PAWL_OK;
}

pawl_status pawl_model_open(const char *path, const pawl_model_options *opt, pawl_model **out, pawl_err *err)
{
    pawl_model_options o = PAWL_INIT(pawl_model_options);
    *out = NULL;
    if (!path || !*path) return pawl__fail(err, PAWL_EINVAL, "model path: found nothing, expected a folder");
    if (opt) pawl__options_copy(&o, sizeof o, opt, opt->size);
    if (o.threads < 0) return pawl__fail(err, PAWL_EINVAL, "threads: found %d, expected 0 (all) or more", o.threads);
    json_object_seed(0); /* before any thread uses the JSON library */
    pawl_model *m = calloc(1, sizeof *m);
    if (!m) return pawl__fail(err, PAWL_ENOMEM, "out of memory");
    pthread_mutex_init(&m->step, NULL);
    m->poison = o.poison;
    m->path = strdup(path);
    pawl_status s = m->path ? PAWL_OK : pawl__fail(err, PAWL_ENOMEM, "out of memory");
    if (s == PAWL_OK) s = open_machine(m, &o, err);
    if (s == PAWL_OK) s = open_weights(m, path, &o, err);
    if (s == PAWL_OK) s = open_text(m, path, err);
    if (s != PAWL_OK) {
        pawl_model_close(&m);
        return s;
    }
    *out = m;
    return PAWL_OK;
}

void pawl_model_close(pawl_model **pm)
{
    pawl_model *m = *pm;
    if (!m) return;
    pawl__tokenizer_close(&m->tokenizer);
    pawl__net_close(&m->net);
    pawl__checkpoint_close(&m->ck);
    pawl__plan_destroy(&m->plan);
    pawl__tuning_free(&m->tuning);
    pawl__pool_destroy(&m->pool);
    pthread_mutex_destroy(&m->step);
    free(m->exec.scratch);
    free(m->path);
    free(m);
    *pm = NULL;
}

void pawl_model_get_info(const pawl_model *m, pawl_model_info *info)
{
    const pawl_net_dims *d = pawl__net_dims(m->net);
    pawl_model_info i = {.size = sizeof i,
                         .model_type = pawl__net_type(m->net),
                         .vocab = d->vocab,
                         .hidden = d->hidden,
                         .layers = d->layers,
                         .context = d->context,
                         .draft_layers = (int)d->draft_layers,
                         .has_tokenizer = m->tokenizer != NULL,
                         .has_template = m->has_template,
                         .weight_bytes = m->weight_bytes,
                         .threads = pawl__pool_threads(m->pool)};
    pawl__options_copy(info, info->size, &i, sizeof i);
}

void pawl_model_get_sampling(const pawl_model *m, pawl_sampling *out)
{
    pawl_sampling s = {.size = sizeof s, .top_p = 1, .repetition_penalty = 1};
    if (m->gen.do_sample) {
        s.temperature = (float)m->gen.temperature;
        s.top_k = (int32_t)m->gen.top_k;
        s.top_p = (float)m->gen.top_p;
        s.min_p = (float)m->gen.min_p;
    }
    s.repetition_penalty = (float)m->gen.repetition_penalty;
    s.presence_penalty = (float)m->gen.presence_penalty;
    s.frequency_penalty = (float)m->gen.frequency_penalty;
    pawl__options_copy(out, out->size, &s, sizeof s);
}

pawl_status pawl__engine_explain(const char *path, const char *caps_text, const pawl_kernel_options *target,
                                 const pawl_kernel_options *draft, int as_json, pawl_buf *out, pawl_err *err)
{
    pawl_caps caps;
    pawl_policy target_policy, draft_policy;
    pawl_exec here = {.caps = &caps};
    pawl_plan *plan = NULL;
    pawl_checkpoint *ck = NULL;
    pawl_net *net = NULL;
    if (caps_text)
        PAWL_TRY(pawl__caps_parse(caps_text, strlen(caps_text), &caps, err));
    else
        pawl__caps_probe(&caps);
    PAWL_TRY(read_policies(target, draft, &target_policy, &draft_policy, err));
    pawl_net_options opt = {.space = caps.arch == PAWL_ARCH_CUDA ? PAWL_SPACE_CUDA : PAWL_SPACE_HOST,
                            .act_int8 = target_policy.act_int8};
    /* This machine's own plan is asked as it would run: entries without a body are passed over, and say so. */
    pawl_status s = pawl__plan_create(&pawl__kernel_table, &caps, &target_policy, &draft_policy,
                                      caps_text ? NULL : &here, &plan, err);
    if (s == PAWL_OK) s = pawl__checkpoint_open(path, NULL, &ck, err);
    if (s == PAWL_OK) s = pawl__net_open(ck, plan, &opt, &net, err);
    if (s == PAWL_OK) {
        if (as_json)
            pawl__plan_explain_json(plan, out);
        else
            pawl__plan_explain(plan, out);
        if (out->failed) s = pawl__fail(err, PAWL_ENOMEM, "explain: out of memory");
    }
    pawl__net_close(&net);
    pawl__checkpoint_close(&ck);
    pawl__plan_destroy(&plan);
    return s;
}
