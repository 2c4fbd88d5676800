/* embed: out[m] = row ids[m] of the table, as f32. */
#ifndef PAWL_OP_EMBED_H
#define PAWL_OP_EMBED_H

#include "quant/quant.h"

typedef struct pawl_embed_args {
    int64_t m;
    const int32_t *ids; /* [m], each in [0, table->n): checked where requests enter */
    const pawl_wmat *table;
    float *out; /* [m][table->k] */
} pawl_embed_args;

#endif
