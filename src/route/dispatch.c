/* The ordered list, first match wins: 0 the user's option, 1 the deprecated switch, 2 a global input scale, 3 what the
 * layer's format names (unquantised weights name bf16 for their own layer, never for the whole model), 4 the runner, 5 the
 * platform, 6 fp8. The order is that of sglang's dispatchers after #25540. */
#include "route/dispatch.h"

#include <string.h>

#include "base/status.h"

static const char *const words[] = {"auto", "bf16", "fp8", "int8", "nvfp4"};
enum { N_WORDS = sizeof words / sizeof *words };

const char *pawl__wire_word(pawl_wire w)
{
    return (unsigned)w < N_WORDS ? words[w] : "?";
}

pawl_status pawl__wire_parse(const char *word, pawl_wire *out, pawl_err *err)
{
    for (int i = 0; i < N_WORDS; i++) {
        if (strcmp(word, words[i]) != 0) continue;
        *out = (pawl_wire)i;
        return PAWL_OK;
    }
    return pawl__fail(err, PAWL_EINVAL, "unknown dispatch format \"%.40s\"; expected auto, bf16, fp8, int8 or nvfp4",
                      word);
}

static int unquantised(pawl_quant w)
{
    return w == PAWL_Q_F32 || w == PAWL_Q_F16 || w == PAWL_Q_BF16;
}

static pawl_status say(pawl_dispatch *out, pawl_wire wire, int rule)
{
    out->wire = wire;
    out->rule = rule;
    return PAWL_OK;
}

pawl_status pawl__dispatch_resolve(const pawl_dispatch_ask *ask, pawl_dispatch *out, pawl_err *err)
{
    if (ask->input_scale && unquantised(ask->w)) {
        return pawl__fail(err, PAWL_EINVAL, "op moe: an input scale was passed for %s experts, which take none",
                          pawl__quant_word(ask->w));
    }
    if (ask->option != PAWL_WIRE_AUTO) {
        pawl__reason(&out->why, "asked for by option");
        return say(out, ask->option, 0);
    }
    if (ask->legacy_bf16) {
        pawl__reason(&out->why, "asked for by the deprecated bf16 switch");
        return say(out, PAWL_WIRE_BF16, 1);
    }
    if (ask->input_scale) {
        pawl__reason(&out->why, "the layer has a global input scale");
        return say(out, PAWL_WIRE_NVFP4, 2);
    }
    pawl_wire named = ask->is_low_latency ? ask->low_latency : ask->normal;
    if (named != PAWL_WIRE_AUTO) {
        pawl__reason(&out->why, "named by the layer's quantisation config");
        return say(out, named, 3);
    }
    if (unquantised(ask->w)) {
        pawl__reason(&out->why, "this layer's weights are %s", pawl__quant_word(ask->w));
        return say(out, PAWL_WIRE_BF16, 3);
    }
    if (ask->runner != PAWL_RUNNER_OTHER) {
        pawl__reason(&out->why, "the %s experts quantise for themselves",
                     ask->runner == PAWL_RUNNER_CUTEDSL ? "cutedsl" : "cutlass");
        return say(out, PAWL_WIRE_BF16, 4);
    }
    if (ask->npu) {
        pawl__reason(&out->why, "the platform dispatches bf16");
        return say(out, PAWL_WIRE_BF16, 5);
    }
    pawl__reason(&out->why, "nothing says otherwise");
    return say(out, PAWL_WIRE_FP8, 6);
}
