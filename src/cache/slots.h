/* Recurrent states of all layers that have one: per layer and slot a convolution window and a state matrix, as plain
 * floats whose meaning the op defines. A sequence owns one slot, the same number in every layer.
 *
 * Not thread-safe: the engine thread owns it. */
#ifndef PAWL_CACHE_SLOTS_H
#define PAWL_CACHE_SLOTS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef struct pawl_slots pawl_slots;

/* conv_size, state_size: floats of one slot in one layer. layers may be 0: a model without recurrence. */
pawl_status pawl__slots_create(int64_t layers, int64_t conv_size, int64_t state_size, int64_t n_slots, pawl_slots **out,
                               pawl_err *err);
void pawl__slots_destroy(pawl_slots **s);

/* A layer's slots: slot i at + i * conv_size (state_size). */
float *pawl__slots_conv(const pawl_slots *s, int64_t layer);
float *pawl__slots_state(const pawl_slots *s, int64_t layer);

int64_t pawl__slots_total(const pawl_slots *s);
int64_t pawl__slots_free(const pawl_slots *s);
/* Takes a slot and sets it to the state before the first token (zeros); -1 when none is free. */
int32_t pawl__slots_take(pawl_slots *s);
void pawl__slots_give(pawl_slots *s, int32_t slot);
/* Sets a slot that is in use back to the state before the first token. */
void pawl__slots_clear(pawl_slots *s, int32_t slot);
/* Floats of one slot in all layers, and a slot's contents to and from memory of that size. */
size_t pawl__slots_floats(const pawl_slots *s);
void pawl__slots_save(const pawl_slots *s, int32_t slot, float *out);
void pawl__slots_load(pawl_slots *s, int32_t slot, const float *in);

#endif
