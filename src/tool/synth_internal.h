/* Shared by synth.c (which tensors there are) and synth_fill.c (what is in them). */
#ifndef PAWL_TOOL_SYNTH_INTERNAL_H
#define PAWL_TOOL_SYNTH_INTERNAL_H

#include "store/writer.h"
#include "tool/synth.h"

/* How the values of a tensor are drawn. */
typedef enum pawl_fill {
    PAWL_FILL_NORMAL, /* mean 0, deviation `scale` */
    PAWL_FILL_NORM,   /* 1 + w norms: small around 0 */
    PAWL_FILL_GAIN,   /* plain norms: small around 1 */
    PAWL_FILL_A_LOG,  /* ln of 1 .. 16 */
    PAWL_FILL_DT,     /* softplus(dt_bias) from 0.001 to 0.1, evenly in the logarithm */
    PAWL_FILL_ZERO,
    PAWL_FILL_PLANTED_EMBED,
    PAWL_FILL_PLANTED_NORM,
    PAWL_FILL_PLANTED_FC
} pawl_fill;

typedef enum pawl_stored { PAWL_STORED_BF16, PAWL_STORED_F32, PAWL_STORED_FP8, PAWL_STORED_NVFP4 } pawl_stored;

enum { PAWL_SYNTH_MAX_PARTS = 4 };

/* One logical tensor and the tensors that it is stored as, which follow one another in the file. */
typedef struct pawl_synth_item {
    pawl_fill fill;
    pawl_stored stored;
    float scale;
    int64_t n, k;    /* rows and columns of the values, whatever the shape */
    uint64_t stream; /* where its random numbers start */
    pawl_tensor_decl part[PAWL_SYNTH_MAX_PARTS];
    int parts;
} pawl_synth_item;

/* Draws the values, converts them and puts all parts. */
pawl_status pawl__synth_write(const pawl_synth_item *it, pawl_writer *w, pawl_err *err);

#endif
