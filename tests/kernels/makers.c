/* Which cases an op has. */
#include "cases.h"

const chk_maker chk_makers[PAWL_OP_COUNT] = {
    [PAWL_OP_EMBED] = chk_make_embed,
    [PAWL_OP_RMSNORM] = chk_make_norm,
    [PAWL_OP_LINEAR] = chk_make_linear,
    [PAWL_OP_ROPE] = chk_make_rope,
    [PAWL_OP_KV_STORE] = chk_make_kv_store,
    [PAWL_OP_ATTN] = chk_make_attn,
    [PAWL_OP_CONV] = chk_make_conv,
    [PAWL_OP_CONV_REPLAY] = chk_make_conv_replay,
    [PAWL_OP_GDN] = chk_make_gdn,
    [PAWL_OP_GDN_VERIFY] = chk_make_gdn_verify,
    [PAWL_OP_GDN_REPLAY] = chk_make_gdn_replay,
    [PAWL_OP_ACT] = chk_make_act,
    [PAWL_OP_ADD] = chk_make_add,
    [PAWL_OP_MOE_ROUTE] = chk_make_moe_route,
    [PAWL_OP_MOE] = chk_make_moe,
    [PAWL_OP_MOE_MASKED] = chk_make_moe_masked,
    [PAWL_OP_MOE_GROUPED] = chk_make_moe_grouped,
};
