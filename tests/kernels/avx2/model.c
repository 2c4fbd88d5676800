#include "model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mathfn.h"
#include "base/rng.h"
#include "quant/codes.h"

typedef struct mapping {
    void *at;
    size_t size;
} mapping;
static mapping maps[4096];
static int n_maps;

void *guarded(size_t n)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), body = (n + page - 1) / page * page;
    char *p = mmap(NULL, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + body, page, PROT_NONE) || n_maps == 4096) abort();
    maps[n_maps++] = (mapping){p, body + page};
    memset(p, 0xff, body);
    return p + body - n;
}

void guarded_free_all(void)
{
    while (n_maps) {
        n_maps--;
        munmap(maps[n_maps].at, maps[n_maps].size);
    }
}

int64_t draw(uint64_t *rng, int64_t n)
{
    return (int64_t)(pawl__rng_next(rng) % (uint64_t)n);
}

static float draw_float(uint64_t *rng, flavour f)
{
    static const float extreme[] = {0.0f, -0.0f, 1e-41f, -3e-45f, 1.2e-38f, 3e18f, -1e18f, 65504.0f};
    float v = (float)((pawl__rng_uniform(rng) + pawl__rng_uniform(rng) + pawl__rng_uniform(rng) - 1.5) * 2);
    if (f == EXTREME && draw(rng, 4) == 0) v = extreme[draw(rng, 8)];
    if (f == SPOILT && draw(rng, 50) == 0) v = draw(rng, 2) ? NAN : draw(rng, 2) ? INFINITY : -INFINITY;
    return v;
}

void draw_floats(uint64_t *rng, flavour f, float *out, int64_t n)
{
    for (int64_t i = 0; i < n; i++) out[i] = draw_float(rng, f);
}

int64_t draw_k(uint64_t *rng, pawl_quant q, int64_t most)
{
    int64_t unit = q == PAWL_Q_NVFP4 ? 16 : q == PAWL_Q_MXFP4 ? 32 : 1;
    return (draw(rng, most / unit) + 1) * unit;
}

static uint8_t draw_e4m3(uint64_t *rng, flavour f)
{
    uint8_t c = (uint8_t)draw(rng, 256);
    if (f == EXTREME && draw(rng, 2)) c &= 0x87; /* subnormals and zeros */
    if ((c & 0x7f) == 0x7f && (f != SPOILT || draw(rng, 4))) c ^= 1;
    return c;
}

pawl_wmat draw_weights(uint64_t *rng, pawl_quant q, flavour f, int64_t n, int64_t k)
{
    pawl_wmat w = {.q = q, .n = n, .k = k, .scale2 = 1.0f};
    int64_t row = pawl__quant_row_bytes(q, k);
    w.ld = row + (draw(rng, 2) ? draw(rng, 40) : 0);
    uint8_t *data = guarded((size_t)((n - 1) * w.ld + row));
    w.data = data;
    for (int64_t r = 0; r < n; r++) {
        uint8_t *p = data + r * w.ld;
        for (int64_t i = 0; i < row; i++) p[i] = q == PAWL_Q_NVFP4 || q == PAWL_Q_MXFP4 ? (uint8_t)draw(rng, 256) : 0;
        for (int64_t i = 0; i < k; i++) {
            float v = draw_float(rng, f);
            uint16_t h = q == PAWL_Q_F16 ? pawl__f16_encode(v) : pawl__bf16_encode(v);
            if (q == PAWL_Q_F32) memcpy(p + 4 * i, &v, 4);
            if (q == PAWL_Q_F16 || q == PAWL_Q_BF16) memcpy(p + 2 * i, &h, 2);
            if (q == PAWL_Q_FP8BLK || q == PAWL_Q_FP8TEN || q == PAWL_Q_FP8CH) p[i] = draw_e4m3(rng, f);
        }
    }
    if (q == PAWL_Q_NVFP4 || q == PAWL_Q_MXFP4) {
        int64_t groups = q == PAWL_Q_NVFP4 ? k / 16 : k / 32;
        w.scale_ld = groups + draw(rng, 3);
        uint8_t *s = guarded((size_t)((n - 1) * w.scale_ld + groups));
        for (int64_t r = 0; r < n; r++)
            for (int64_t i = 0; i < groups; i++) {
                uint8_t *c = &s[r * w.scale_ld + i];
                if (q == PAWL_Q_NVFP4)
                    *c = f == SPOILT && !draw(rng, 200) ? 0x7f : (uint8_t)draw(rng, 0x7f);
                else
                    *c = f == PLAIN ? (uint8_t)(120 + draw(rng, 15)) : (uint8_t)draw(rng, f == SPOILT ? 256 : 190);
            }
        w.bscale = s;
        if (q == PAWL_Q_NVFP4) w.scale2 = 0.0173f;
        return w;
    }
    if (q == PAWL_Q_FP8BLK) w.row0 = draw(rng, 128);
    int64_t rows = q == PAWL_Q_FP8BLK ? (w.row0 + n + 127) / 128 : q == PAWL_Q_FP8CH ? n : q == PAWL_Q_FP8TEN ? 1 : 0;
    int64_t cols = q == PAWL_Q_FP8BLK ? (k + 127) / 128 : 1;
    if (!rows) return w;
    w.scale_ld = q == PAWL_Q_FP8BLK ? cols + draw(rng, 3) : 0;
    float *s = guarded((size_t)((rows - 1) * (q == PAWL_Q_FP8BLK ? w.scale_ld : 1) + cols) * sizeof(float));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < cols; i++)
            s[r * (q == PAWL_Q_FP8BLK ? w.scale_ld : 1) + i] = (float)(0.001 + pawl__rng_uniform(rng));
    w.scale = s;
    return w;
}

static float weight(const pawl_wmat *w, int64_t n, int64_t k)
{
    const uint8_t *p = (const uint8_t *)w->data + n * w->ld;
    uint16_t h;
    float v;
    switch (w->q) {
    case PAWL_Q_F32:
        memcpy(&v, p + 4 * k, 4);
        return v;
    case PAWL_Q_F16:
        memcpy(&h, p + 2 * k, 2);
        return pawl__f16_decode(h);
    case PAWL_Q_BF16:
        memcpy(&h, p + 2 * k, 2);
        return pawl__bf16_decode(h);
    case PAWL_Q_NVFP4:
        return pawl__e2m1_table[p[k / 2] >> (k % 2 ? 4 : 0) & 15] *
               pawl__e4m3_decode(w->bscale[n * w->scale_ld + k / 16]);
    case PAWL_Q_MXFP4:
        return pawl__e2m1_table[p[k / 2] >> (k % 2 ? 4 : 0) & 15] *
               pawl__e8m0_decode(w->bscale[n * w->scale_ld + k / 32]);
    default:
        return pawl__e4m3_decode(p[k]);
    }
}

float model_dot(const pawl_wmat *w, int64_t n, const float *x, const float *bias)
{
    float acc[16] = {0}, p[16] = {0};
    for (int64_t k = 0; k < w->k; k++) {
        float *lane = w->q == PAWL_Q_FP8BLK ? &p[k % 16] : &acc[k % 16];
        *lane = fmaf(weight(w, n, k), x[k], *lane);
        if (w->q == PAWL_Q_FP8BLK && (k % 128 == 127 || k == w->k - 1))
            for (int i = 0; i < 16; i++) {
                acc[i] = fmaf(p[i], w->scale[(w->row0 + n) / 128 * w->scale_ld + k / 128], acc[i]);
                p[i] = 0;
            }
    }
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) acc[i] += acc[i + half];
    float y = acc[0];
    if (w->q == PAWL_Q_FP8TEN) y *= w->scale[0];
    if (w->q == PAWL_Q_FP8CH) y *= w->scale[n];
    if (w->q == PAWL_Q_NVFP4) y *= w->scale2;
    return bias ? y + bias[n] : y;
}

void model_expert(const pawl_experts *ex, int64_t id, const float *x, float *y)
{
    const pawl_expert *e = &ex->e[id];
    float *a = malloc((size_t)ex->i * sizeof *a);
    if (!a) abort();
    for (int64_t c = 0; c < ex->i; c++) {
        float g = model_dot(&e->gate, c, x, e->gate_bias), v = g > 0 ? g : 0 * g;
        a[c] = ex->act == PAWL_ACT_SILU ? pawl__siluf(g) : v * v;
        if (ex->gated) a[c] *= model_dot(&e->up, c, x, e->up_bias);
    }
    for (int64_t c = 0; c < ex->h; c++) y[c] = model_dot(&e->down, c, a, e->down_bias);
    free(a);
}

int same_float(float a, float b)
{
    return pawl__f32_bits(a) == pawl__f32_bits(b) || (isnan(a) && isnan(b));
}
