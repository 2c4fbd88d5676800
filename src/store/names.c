#include "store/names.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/rng.h"

static uint64_t random_word(const void *fallback)
{
    uint64_t w = 0;
    /* without the system's source an address still differs from run to run; look-ups are right either way */
    if (getrandom(&w, sizeof w, GRND_NONBLOCK) != (ssize_t)sizeof w) w = (uint64_t)(uintptr_t)fallback;
    return w;
}

static uint64_t hash(const pawl_names *t, const char *s, size_t n)
{
    uint64_t h = t->key ^ n;
    for (; n >= 8; s += 8, n -= 8) {
        uint64_t w;
        memcpy(&w, s, 8);
        h = pawl__mix64(h ^ w);
    }
    uint64_t w = 0;
    memcpy(&w, s, n);
    return pawl__mix64(h ^ w);
}

int pawl__names_init(pawl_names *t, size_t max)
{
    size_t slots = 8;
    while (slots < max * 2) slots *= 2;
    memset(t, 0, sizeof *t);
    t->slot = calloc(slots, sizeof *t->slot);
    if (!t->slot) return -1;
    t->mask = slots - 1;
    t->max = max;
    t->key = random_word(t->slot);
    return 0;
}

void pawl__names_free(pawl_names *t)
{
    free(t->slot);
    memset(t, 0, sizeof *t);
}

/* The slot of this name, or the free slot where it would go. */
static size_t probe(const pawl_names *t, const char *name, size_t len)
{
    size_t i = hash(t, name, len) & t->mask;
    while (t->slot[i].name && (t->slot[i].len != len || memcmp(t->slot[i].name, name, len))) i = (i + 1) & t->mask;
    return i;
}

uint32_t pawl__names_find(const pawl_names *t, const char *name, size_t len)
{
    if (!t->slot) return PAWL_NAMES_NONE;
    size_t i = probe(t, name, len);
    return t->slot[i].name ? t->slot[i].index : PAWL_NAMES_NONE;
}

uint32_t pawl__names_add(pawl_names *t, const char *name, size_t len, uint32_t index)
{
    size_t i = probe(t, name, len);
    if (t->slot[i].name) return t->slot[i].index;
    t->slot[i].name = name;
    t->slot[i].len = (uint32_t)len;
    t->slot[i].index = index;
    t->count++;
    return PAWL_NAMES_NONE;
}
