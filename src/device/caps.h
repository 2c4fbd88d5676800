/* What a machine can do, as plain data: probed here, or parsed from a text that describes another machine.
 *
 * Text form: `cpu isa=avx2,fma,f16c cores=2 l2=512k mem=24g`, `cuda cc=90 sms=132 smem=227k mem=141g`; an unknown key or
 * feature is an error. print -> parse -> equal. */
#ifndef PAWL_DEVICE_CAPS_H
#define PAWL_DEVICE_CAPS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/status.h"

typedef enum pawl_arch { PAWL_ARCH_CPU, PAWL_ARCH_CUDA } pawl_arch;

/* CPU features, each counted only when the operating system saves its registers. */
enum {
    PAWL_ISA_AVX2 = 1 << 0,
    PAWL_ISA_FMA = 1 << 1,
    PAWL_ISA_F16C = 1 << 2,
    PAWL_ISA_AVXVNNI = 1 << 3,
    PAWL_ISA_AVX512F = 1 << 4,
    PAWL_ISA_AVX512BW = 1 << 5,
    PAWL_ISA_AVX512DQ = 1 << 6,
    PAWL_ISA_AVX512VL = 1 << 7,
    PAWL_ISA_AVX512VNNI = 1 << 8,
    PAWL_ISA_AVX512BF16 = 1 << 9,
    PAWL_ISA_AVX512VBMI = 1 << 10,
    PAWL_ISA_AMX_TILE = 1 << 11,
    PAWL_ISA_AMX_INT8 = 1 << 12,
    PAWL_ISA_AMX_BF16 = 1 << 13,
    PAWL_ISA_NEON = 1 << 14,
    PAWL_ISA_DOTPROD = 1 << 15,
    PAWL_ISA_I8MM = 1 << 16,
    PAWL_ISA_SVE = 1 << 17
};

typedef struct pawl_caps {
    pawl_arch arch;
    int cc;        /* CUDA compute capability: 90 for 9.0; 0 on CPUs */
    uint64_t isa;  /* PAWL_ISA_*: present and granted */
    uint64_t slow; /* PAWL_ISA_*: present, but not worth using here */
    int cores;     /* CPUs that this process may use: min(affinity, cgroup quota rounded down, online) */
    int sms;       /* CUDA multiprocessors */
    size_t l2;     /* bytes of second-level cache (per core on CPUs) */
    size_t smem;   /* bytes of shared memory a block may use (CUDA) */
    size_t mem;    /* bytes of memory that may be used: physical, or the cgroup's limit */
    int driver;    /* CUDA driver version as 12080 for 12.8; 0 unknown */
    char name[48]; /* processor model, for people; not part of the text form */
} pawl_caps;

/* The machine this process runs on. Never fails: what cannot be found out is 0. */
void pawl__caps_probe(pawl_caps *out);
/* n bytes of text in the form above. */
pawl_status pawl__caps_parse(const char *text, size_t n, pawl_caps *out, pawl_err *err);
void pawl__caps_print(const pawl_caps *c, pawl_buf *out);
/* "avx2,fma": the features of a mask, comma-separated. */
void pawl__isa_print(uint64_t isa, pawl_buf *out);

/* The features up to a named level: "ref" (none), "avx2", "avx512", "amx", "neon", "native" (all). PAWL_EINVAL when the
 * word is unknown. Used by --isa to cap what the router sees: caps.isa &= mask. */
pawl_status pawl__isa_level(const char *word, uint64_t *mask, pawl_err *err);

#endif
