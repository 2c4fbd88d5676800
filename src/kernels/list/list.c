/* The table of all lists. */
#include "kernels/list/list.h"

#include "kernels/list/lists.h"

const pawl_kernel_table pawl__kernel_table = {{
    [PAWL_OP_EMBED] = pawl__list_embed,
    [PAWL_OP_RMSNORM] = pawl__list_rmsnorm,
    [PAWL_OP_LINEAR] = pawl__list_linear,
    [PAWL_OP_ROPE] = pawl__list_rope,
    [PAWL_OP_KV_STORE] = pawl__list_kv_store,
    [PAWL_OP_ATTN] = pawl__list_attn,
    [PAWL_OP_CONV] = pawl__list_conv,
    [PAWL_OP_CONV_REPLAY] = pawl__list_conv_replay,
    [PAWL_OP_GDN] = pawl__list_gdn,
    [PAWL_OP_GDN_VERIFY] = pawl__list_gdn_verify,
    [PAWL_OP_GDN_REPLAY] = pawl__list_gdn_replay,
    [PAWL_OP_ACT] = pawl__list_act,
    [PAWL_OP_ADD] = pawl__list_add,
    [PAWL_OP_MOE_ROUTE] = pawl__list_moe_route,
    [PAWL_OP_MOE] = pawl__list_moe,
    [PAWL_OP_MOE_MASKED] = pawl__list_moe_masked,
    [PAWL_OP_MOE_GROUPED] = pawl__list_moe_grouped,
}};
