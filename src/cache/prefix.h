/* The prefix cache: what has been computed for the beginnings of token sequences, for later sequences that begin alike.
 *
 * A tree a tenant. A block node stands for `interval` tokens after its parent (so it ends at an absolute multiple of the
 * interval), a partial node for fewer; a node holds the KV pages of its tokens, which it shares with the sequence that
 * computed them. A node may also hold a checkpoint: the recurrent state after its last token, the target's hidden state of
 * that token (the draft layer needs it to go on), and perhaps that token's logits (so that a prompt that is known as a
 * whole costs nothing). Only a checkpoint can be found.
 *
 * Pages of a found prefix are shared but for the last, which holds the position whose draft keys depend on the token after
 * the prefix: it is for the finder to copy. Block nodes are found by XXH3-128 of parent key and tokens, and the tokens are
 * compared as well.
 *
 * Checkpoints are dropped in the order of their last use when the byte budget (states and pages) is exceeded or pages are
 * needed; pages go with the last checkpoint that needs them. Not thread-safe: the engine thread owns it. */
#ifndef PAWL_CACHE_PREFIX_H
#define PAWL_CACHE_PREFIX_H

#include "cache/kv.h"
#include "cache/slots.h"

typedef struct pawl_prefix pawl_prefix;

typedef struct pawl_prefix_options {
    int64_t interval; /* a multiple of page */
    int64_t page;     /* positions of a KV page */
    int64_t hidden, vocab;
    int64_t budget; /* bytes */
} pawl_prefix_options;

/* kv and slots are borrowed. */
pawl_status pawl__prefix_create(pawl_kv *kv, pawl_slots *slots, const pawl_prefix_options *opt, pawl_prefix **out,
                                pawl_err *err);
/* Gives all pages back. */
void pawl__prefix_destroy(pawl_prefix **p);

/* A found prefix; valid until the next insert or evict. */
typedef struct pawl_prefix_hit {
    int64_t len;         /* tokens; 0: nothing found */
    const float *state;  /* as pawl__slots_load takes it */
    const float *hidden; /* [hidden]: the target's, of position len - 1 */
    const float *logits; /* [vocab] of position len - 1, or NULL */
} pawl_prefix_hit;
/* The longest checkpoint that is a prefix of ids; one of all n tokens only when it has logits. pages [ceil(len / page)]
 * receives its pages, which stay the cache's: hold those that are shared. */
void pawl__prefix_find(pawl_prefix *p, const char *tenant, const int32_t *ids, int64_t n, int32_t *pages,
                       pawl_prefix_hit *hit);

/* A checkpoint after ids[0, len): pages of the sequence (those that the cache lacks are held), its slot's state, hidden
 * and, if not NULL, logits are copied. Without memory or room in the budget nothing is kept. */
void pawl__prefix_insert(pawl_prefix *p, const char *tenant, const int32_t *ids, int64_t len, const int32_t *pages,
                         int32_t slot, const float *hidden, const float *logits);

/* Drops checkpoints until n pages are free; 0 when that cannot be had. */
int pawl__prefix_make_room(pawl_prefix *p, int64_t n);

typedef struct pawl_prefix_stats {
    int64_t bytes, nodes, holds; /* holds: pages held, counted once a node */
    int64_t evictions;
} pawl_prefix_stats;
void pawl__prefix_get_stats(const pawl_prefix *p, pawl_prefix_stats *out);

#endif
