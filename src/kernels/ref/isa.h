/* The row-wise kernels of this folder are compiled twice: plainly, and with -mavx2 -mfma -DPAWL_FOR_AVX2 (cmake/isa.cmake).
 * The source fixes the bits (lanes, order, explicit fma), the compiler only finds wider instructions for them. Everything in
 * such a file but its entries is static, so that no AVX2 code gets where it does not belong. */
#ifndef PAWL_KERNELS_REF_ISA_H
#define PAWL_KERNELS_REF_ISA_H

#ifdef PAWL_FOR_AVX2
#include "kernels/ref/cpu_avx2.h"
#define PAWL_ENTRY(name) pawl__k_##name##_avx2 /* the entry's symbol, as pawl__k_gdn_f32_avx2 */
#define PAWL_ISA_WORD    "avx2"                /* the end of its id */
#define PAWL_ISA_NEEDS   (PAWL_ISA_AVX2 | PAWL_ISA_FMA)
#else
#include "kernels/ref/ref.h"
#define PAWL_ENTRY(name) pawl__k_##name##_ref
#define PAWL_ISA_WORD    "ref"
#define PAWL_ISA_NEEDS   0
#endif

#endif
