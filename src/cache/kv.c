#include "cache/kv.h"

#include <stdlib.h>
#include <string.h>

struct pawl_kv {
    int64_t layers, layer_size, n_pages; /* layer_size: floats of one layer's keys */
    int64_t page_size;                   /* floats of one page's keys in one layer */
    float *keys, *values;
    int32_t *free_pages; /* a stack: the last given back is the next taken, while it is warm */
    int64_t n_free;
    int32_t *holders; /* of each page */
    int64_t n_holders;
};

pawl_status pawl__kv_create(int64_t layers, int64_t kv_heads, int64_t page, int64_t d, int64_t n_pages, pawl_kv **out,
                            pawl_err *err)
{
    *out = NULL;
    size_t floats = (size_t)n_pages, total;
    if (n_pages > INT32_MAX || __builtin_mul_overflow(floats, (size_t)kv_heads, &floats) ||
        __builtin_mul_overflow(floats, (size_t)page, &floats) || __builtin_mul_overflow(floats, (size_t)d, &floats) ||
        __builtin_mul_overflow(floats, (size_t)layers, &total))
        return pawl__fail(err, PAWL_ENOMEM, "KV cache: %lld pages are too many", (long long)n_pages);
    pawl_kv *kv = calloc(1, sizeof *kv);
    if (!kv) return pawl__fail(err, PAWL_ENOMEM, "KV cache: out of memory");
    kv->layers = layers;
    kv->layer_size = (int64_t)floats;
    kv->n_pages = n_pages;
    kv->page_size = kv_heads * page * d;
    kv->holders = calloc(n_pages ? (size_t)n_pages : 1, sizeof *kv->holders);
    kv->keys = calloc(total ? total : 1, sizeof *kv->keys);
    kv->values = calloc(total ? total : 1, sizeof *kv->values);
    kv->free_pages = calloc(n_pages ? (size_t)n_pages : 1, sizeof *kv->free_pages);
    if (!kv->keys || !kv->values || !kv->free_pages || !kv->holders) {
        pawl__kv_destroy(&kv);
        return pawl__fail(err, PAWL_ENOMEM, "KV cache: out of memory for %zu bytes", total * 2 * sizeof(float));
    }
    for (int64_t i = 0; i < n_pages; i++) kv->free_pages[i] = (int32_t)(n_pages - 1 - i);
    kv->n_free = n_pages;
    *out = kv;
    return PAWL_OK;
}

void pawl__kv_destroy(pawl_kv **pkv)
{
    pawl_kv *kv = *pkv;
    if (!kv) return;
    free(kv->keys);
    free(kv->values);
    free(kv->free_pages);
    free(kv->holders);
    free(kv);
    *pkv = NULL;
}

float *pawl__kv_keys(const pawl_kv *kv, int64_t layer)
{
    return kv->keys + layer * kv->layer_size;
}

float *pawl__kv_values(const pawl_kv *kv, int64_t layer)
{
    return kv->values + layer * kv->layer_size;
}

int64_t pawl__kv_total(const pawl_kv *kv)
{
    return kv->n_pages;
}

int64_t pawl__kv_free(const pawl_kv *kv)
{
    return kv->n_free;
}

pawl_status pawl__kv_take(pawl_kv *kv, int64_t n, int32_t *pages)
{
    if (n > kv->n_free) return PAWL_EBUSY;
    for (int64_t i = 0; i < n; i++) {
        pages[i] = kv->free_pages[--kv->n_free];
        kv->holders[pages[i]] = 1;
    }
    kv->n_holders += n;
    return PAWL_OK;
}

void pawl__kv_hold(pawl_kv *kv, const int32_t *pages, int64_t n)
{
    for (int64_t i = 0; i < n; i++) kv->holders[pages[i]]++;
    kv->n_holders += n;
}

void pawl__kv_give(pawl_kv *kv, const int32_t *pages, int64_t n)
{
    for (int64_t i = n; i-- > 0;)
        if (--kv->holders[pages[i]] == 0) kv->free_pages[kv->n_free++] = pages[i];
    kv->n_holders -= n;
}

int64_t pawl__kv_holders(const pawl_kv *kv)
{
    return kv->n_holders;
}

void pawl__kv_copy(pawl_kv *kv, int32_t from, int32_t to)
{
    size_t bytes = (size_t)kv->page_size * sizeof(float);
    for (int64_t l = 0; l < kv->layers; l++) {
        memcpy(pawl__kv_keys(kv, l) + to * kv->page_size, pawl__kv_keys(kv, l) + from * kv->page_size, bytes);
        memcpy(pawl__kv_values(kv, l) + to * kv->page_size, pawl__kv_values(kv, l) + from * kv->page_size, bytes);
    }
}

size_t pawl__kv_page_bytes(const pawl_kv *kv)
{
    return (size_t)(2 * kv->layers * kv->page_size) * sizeof(float);
}

void pawl__kv_save(const pawl_kv *kv, int32_t page, void *out)
{
    size_t bytes = (size_t)kv->page_size * sizeof(float);
    for (int64_t l = 0; l < kv->layers; l++, out = (char *)out + 2 * bytes) {
        memcpy(out, pawl__kv_keys(kv, l) + page * kv->page_size, bytes);
        memcpy((char *)out + bytes, pawl__kv_values(kv, l) + page * kv->page_size, bytes);
    }
}

void pawl__kv_load(pawl_kv *kv, int32_t page, const void *in)
{
    size_t bytes = (size_t)kv->page_size * sizeof(float);
    for (int64_t l = 0; l < kv->layers; l++, in = (const char *)in + 2 * bytes) {
        memcpy(pawl__kv_keys(kv, l) + page * kv->page_size, in, bytes);
        memcpy(pawl__kv_values(kv, l) + page * kv->page_size, (const char *)in + bytes, bytes);
    }
}
