#include "cache/slots.h"

#include <stdlib.h>
#include <string.h>

struct pawl_slots {
    int64_t layers, conv_size, state_size, n_slots;
    float *conv, *state;
    int32_t *free_slots;
    int64_t n_free;
};

pawl_status pawl__slots_create(int64_t layers, int64_t conv_size, int64_t state_size, int64_t n_slots, pawl_slots **out,
                               pawl_err *err)
{
    *out = NULL;
    size_t conv, state;
    if (n_slots > INT32_MAX || __builtin_mul_overflow((size_t)layers, (size_t)conv_size, &conv) ||
        __builtin_mul_overflow(conv, (size_t)n_slots, &conv) ||
        __builtin_mul_overflow((size_t)layers, (size_t)state_size, &state) ||
        __builtin_mul_overflow(state, (size_t)n_slots, &state))
        return pawl__fail(err, PAWL_ENOMEM, "recurrent states: %lld slots are too many", (long long)n_slots);
    pawl_slots *s = calloc(1, sizeof *s);
    if (!s) return pawl__fail(err, PAWL_ENOMEM, "recurrent states: out of memory");
    s->layers = layers;
    s->conv_size = conv_size;
    s->state_size = state_size;
    s->n_slots = n_slots;
    s->conv = calloc(conv ? conv : 1, sizeof *s->conv);
    s->state = calloc(state ? state : 1, sizeof *s->state);
    s->free_slots = calloc(n_slots ? (size_t)n_slots : 1, sizeof *s->free_slots);
    if (!s->conv || !s->state || !s->free_slots) {
        pawl__slots_destroy(&s);
        return pawl__fail(err, PAWL_ENOMEM, "recurrent states: out of memory for %zu bytes",
                          (conv + state) * sizeof(float));
    }
    for (int64_t i = 0; i < n_slots; i++) s->free_slots[i] = (int32_t)(n_slots - 1 - i);
    s->n_free = n_slots;
    *out = s;
    return PAWL_OK;
}

void pawl__slots_destroy(pawl_slots **ps)
{
    pawl_slots *s = *ps;
    if (!s) return;
    free(s->conv);
    free(s->state);
    free(s->free_slots);
    free(s);
    *ps = NULL;
}

float *pawl__slots_conv(const pawl_slots *s, int64_t layer)
{
    return s->conv + layer * s->n_slots * s->conv_size;
}

float *pawl__slots_state(const pawl_slots *s, int64_t layer)
{
    return s->state + layer * s->n_slots * s->state_size;
}

int64_t pawl__slots_total(const pawl_slots *s)
{
    return s->n_slots;
}

int64_t pawl__slots_free(const pawl_slots *s)
{
    return s->n_free;
}

void pawl__slots_clear(pawl_slots *s, int32_t slot)
{
    for (int64_t l = 0; l < s->layers; l++) {
        memset(pawl__slots_conv(s, l) + slot * s->conv_size, 0, (size_t)s->conv_size * sizeof(float));
        memset(pawl__slots_state(s, l) + slot * s->state_size, 0, (size_t)s->state_size * sizeof(float));
    }
}

int32_t pawl__slots_take(pawl_slots *s)
{
    if (!s->n_free) return -1;
    int32_t slot = s->free_slots[--s->n_free];
    pawl__slots_clear(s, slot);
    return slot;
}

void pawl__slots_give(pawl_slots *s, int32_t slot)
{
    s->free_slots[s->n_free++] = slot;
}

size_t pawl__slots_floats(const pawl_slots *s)
{
    return (size_t)(s->layers * (s->conv_size + s->state_size));
}

void pawl__slots_save(const pawl_slots *s, int32_t slot, float *out)
{
    for (int64_t l = 0; l < s->layers; l++, out += s->conv_size + s->state_size) {
        memcpy(out, pawl__slots_conv(s, l) + slot * s->conv_size, (size_t)s->conv_size * sizeof *out);
        memcpy(out + s->conv_size, pawl__slots_state(s, l) + slot * s->state_size, (size_t)s->state_size * sizeof *out);
    }
}

void pawl__slots_load(pawl_slots *s, int32_t slot, const float *in)
{
    for (int64_t l = 0; l < s->layers; l++, in += s->conv_size + s->state_size) {
        memcpy(pawl__slots_conv(s, l) + slot * s->conv_size, in, (size_t)s->conv_size * sizeof *in);
        memcpy(pawl__slots_state(s, l) + slot * s->state_size, in + s->conv_size, (size_t)s->state_size * sizeof *in);
    }
}
