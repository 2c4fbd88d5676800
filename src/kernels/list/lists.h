/* The lists that make up the table; list.h is what others include. */
#ifndef PAWL_KERNELS_LIST_LISTS_H
#define PAWL_KERNELS_LIST_LISTS_H

#include "route/route.h"

extern const pawl_kernel *const pawl__list_embed[];
extern const pawl_kernel *const pawl__list_rmsnorm[];
extern const pawl_kernel *const pawl__list_linear[];
extern const pawl_kernel *const pawl__list_rope[];
extern const pawl_kernel *const pawl__list_kv_store[];
extern const pawl_kernel *const pawl__list_attn[];
extern const pawl_kernel *const pawl__list_conv[];
extern const pawl_kernel *const pawl__list_conv_replay[];
extern const pawl_kernel *const pawl__list_gdn[];
extern const pawl_kernel *const pawl__list_gdn_verify[];
extern const pawl_kernel *const pawl__list_gdn_replay[];
extern const pawl_kernel *const pawl__list_act[];
extern const pawl_kernel *const pawl__list_add[];
extern const pawl_kernel *const pawl__list_moe_route[];
extern const pawl_kernel *const pawl__list_moe[];
extern const pawl_kernel *const pawl__list_moe_masked[];
extern const pawl_kernel *const pawl__list_moe_grouped[];

#endif
