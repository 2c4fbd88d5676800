/* Keys and values of all attention layers in pages of a fixed number of positions. A page number means the same positions
 * in every layer, so one page table a sequence serves them all, the draft layer's included.
 *
 * Memory is reserved at creation and touched when first written. Not thread-safe: the engine thread owns it. */
#ifndef PAWL_CACHE_KV_H
#define PAWL_CACHE_KV_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pawl_kv pawl_kv;

/* layers, kv_heads, page (positions), d (head size) >= 1, n_pages >= 0. */
pawl_status pawl__kv_create(int64_t layers, int64_t kv_heads, int64_t page, int64_t d, int64_t n_pages, pawl_kv **out,
                            pawl_err *err);
void pawl__kv_destroy(pawl_kv **kv);

/* A layer's keys [n_pages][kv_heads][d][page] and values [n_pages][kv_heads][page][d]. */
float *pawl__kv_keys(const pawl_kv *kv, int64_t layer);
float *pawl__kv_values(const pawl_kv *kv, int64_t layer);

int64_t pawl__kv_total(const pawl_kv *kv);
int64_t pawl__kv_free(const pawl_kv *kv);
/* Takes n pages into pages[], each with one holder; PAWL_EBUSY, and none taken, when fewer are free. */
pawl_status pawl__kv_take(pawl_kv *kv, int64_t n, int32_t *pages);
/* One more holder for each page: shared pages are read only. */
void pawl__kv_hold(pawl_kv *kv, const int32_t *pages, int64_t n);
/* One holder less; a page without any is free again. */
void pawl__kv_give(pawl_kv *kv, const int32_t *pages, int64_t n);
/* Holders of all pages together. */
int64_t pawl__kv_holders(const pawl_kv *kv);
/* All layers' keys and values of page `from` into page `to`. */
void pawl__kv_copy(pawl_kv *kv, int32_t from, int32_t to);
/* Bytes of one page in all layers, and the page's contents to and from memory of that size. */
size_t pawl__kv_page_bytes(const pawl_kv *kv);
void pawl__kv_save(const pawl_kv *kv, int32_t page, void *out);
void pawl__kv_load(pawl_kv *kv, int32_t page, const void *in);

#endif
