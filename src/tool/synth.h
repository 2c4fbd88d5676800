/* Random checkpoints of any config of the Qwen3.5 family, for tests, benches and explanations of models that nobody has at
 * hand: published names and layouts, weights of sane size (activations neither vanish nor blow up), any format. */
#ifndef PAWL_TOOL_SYNTH_H
#define PAWL_TOOL_SYNTH_H

#include <stdint.h>

#include "base/status.h"

typedef enum pawl_synth_format {
    PAWL_SYNTH_BF16, /* fused experts, as the BF16 releases */
    PAWL_SYNTH_FP8,  /* blocks of 128 x 128 with bf16 scales, one tensor per expert, the MTP layer too but for mtp.fc */
    PAWL_SYNTH_NVFP4, /* as ModelOpt writes it; the MTP layer stays BF16 with fused experts */
    PAWL_SYNTH_FORMATS
} pawl_synth_format;

typedef struct pawl_synth_opts {
    uint64_t seed; /* the same seed gives the same bytes */
    pawl_synth_format format;
    /* Residual branches write zero, embedding and head are tied, and target and draft both map the last token t through
     * one permutation (t to t^1), with equal bits in their logits, so that every draft is accepted. Adds an MTP layer to a
     * config without one. Needs a hidden size of at least 64. */
    int planted_mtp;
    uint64_t shard_bytes; /* 0: 4 GiB */
} pawl_synth_opts;

/* "bf16", "fp8", "nvfp4"; PAWL_SYNTH_FORMATS when unknown. */
pawl_synth_format pawl__synth_format_parse(const char *word);

/* Reads the config file and writes a checkpoint into the folder dst, which is made, or must be empty. Vision tensors are
 * not written. On failure files may be left behind, but none that is incomplete. */
pawl_status pawl__synth(const char *config_path, const char *dst, const pawl_synth_opts *opts, pawl_err *err);

#endif
