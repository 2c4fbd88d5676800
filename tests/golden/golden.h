/* Golden vectors: a safetensors file whose tensors were made by an independent implementation, compared with what a model
 * gives here. */
#ifndef PAWL_TESTS_GOLDEN_H
#define PAWL_TESTS_GOLDEN_H

#include "check.h"

#include <math.h>

#include "engine/engine.h"
#include "store/safetensors.h"

/* A tensor as floats (I32 converted); NULL when absent. The caller frees. */
static inline float *golden_floats(const pawl_safetensors *g, const char *name, int64_t *rows, int64_t *width)
{
    const pawl_tensor *t = pawl__safetensors_find(g, name);
    *rows = *width = 0;
    if (!t) return NULL;
    int64_t n = pawl__tensor_count(t);
    *width = t->rank ? t->shape[t->rank - 1] : 1;
    *rows = *width ? n / *width : 0;
    float *out = malloc((size_t)n * sizeof *out + 1);
    for (int64_t i = 0; i < n; i++) {
        if (t->dtype == PAWL_I32) {
            int32_t v;
            memcpy(&v, t->data + 4 * i, 4);
            out[i] = (float)v;
        } else {
            memcpy(&out[i], t->data + 4 * i, 4);
        }
    }
    return out;
}

static inline int32_t *golden_ints(const pawl_safetensors *g, const char *name, int64_t *n)
{
    const pawl_tensor *t = pawl__safetensors_find(g, name);
    *n = 0;
    if (!t) return NULL;
    assert_int_equal(t->dtype, PAWL_I32);
    *n = pawl__tensor_count(t);
    int32_t *out = malloc((size_t)*n * sizeof *out + 1);
    memcpy(out, t->data, (size_t)*n * sizeof *out);
    return out;
}

/* ||a - b|| / ||b||, the worst row. */
static inline double worst_row(const float *a, const float *b, int64_t rows, int64_t width)
{
    double worst = 0;
    for (int64_t r = 0; r < rows; r++) {
        double d = 0, n = 0;
        for (int64_t j = 0; j < width; j++) {
            double e = (double)a[r * width + j] - (double)b[r * width + j];
            d += e * e;
            n += (double)b[r * width + j] * (double)b[r * width + j];
        }
        double rel = n > 0 ? sqrt(d / n) : sqrt(d);
        if (!(rel <= worst)) worst = rel;
    }
    return worst;
}

#define golden_close(what, a, b, rows, width, bound)                                                                   \
    do {                                                                                                               \
        double rel_ = worst_row(a, b, rows, width);                                                                    \
        printf("%-28s relative error %.2e\n", what, rel_);                                                             \
        if (!(rel_ <= (bound))) fail_msg("%s: relative error %g, expected at most %g", what, rel_, (double)(bound));   \
    } while (0)

/* All rows of logits of target and draft layer. */
typedef struct scores {
    int64_t vocab;
    float *logits, *draft;
} scores;

static inline int take_logits(void *user, int draft, int64_t first, int64_t rows, const float *logits)
{
    scores *s = user;
    float *to = draft ? s->draft : s->logits;
    memcpy(to + first * s->vocab, logits, (size_t)(rows * s->vocab) * sizeof *to);
    return 0;
}

static inline scores score_ids(pawl_model *m, const int32_t *ids, int64_t n, int with_draft, int32_t chunk)
{
    pawl_err err;
    pawl_session *s;
    pawl_session_options o = PAWL_INIT(pawl_session_options);
    o.chunk = chunk;
    pawl_model_info info = PAWL_INIT(pawl_model_info);
    pawl_model_get_info(m, &info);
    scores out = {.vocab = info.vocab};
    out.logits = malloc((size_t)(n * info.vocab) * sizeof(float));
    out.draft = malloc((size_t)(n * info.vocab) * sizeof(float));
    check_ok(pawl_session_create(m, &o, &s, &err), &err);
    check_ok(pawl_score(s, ids, (size_t)n, with_draft, take_logits, &out, &err), &err);
    pawl_session_destroy(&s);
    return out;
}

static inline void free_scores(scores *s)
{
    free(s->logits);
    free(s->draft);
}

static inline int32_t argmax(const float *x, int64_t n)
{
    int32_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (x[i] > x[best]) best = (int32_t)i;
    return best;
}

#endif
