/* Every kernel that pawl knows, per op: best first, floor last. The order is the policy and is reviewed as such. */
#ifndef PAWL_KERNELS_LIST_LIST_H
#define PAWL_KERNELS_LIST_LIST_H

#include "route/route.h"

extern const pawl_kernel_table pawl__kernel_table;

#endif
