/* Finds out what this machine can do. A CPU feature counts only when the operating system saves its registers (XCR0) and,
 * for AMX, when it grants the tile data to this process on request. Sources: Intel SDM volume 1 chapter 13 (XCR0),
 * volume 2 CPUID; the kernel's Documentation/arch/x86/xstate.rst (arch_prctl). */
#include "device/caps.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/syscall.h>

#include "device/cgroup.h"

#if defined(__x86_64__)
#include <cpuid.h>

enum { XCR0_AVX = 0x6, XCR0_AVX512 = 0xe0, XCR0_AMX = 0x60000 };
enum { REQUEST_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

static uint64_t read_xcr0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

/* Tile data is 8 KiB a thread, so the kernel enables it only for processes that ask. */
static int amx_granted(void)
{
    return syscall(SYS_arch_prctl, REQUEST_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

static uint64_t bit(uint32_t word, int n, uint64_t feature)
{
    return word >> n & 1 ? feature : 0;
}

static uint64_t probe_isa(void)
{
    uint32_t a, b, c, d, c1;
    if (!__get_cpuid(1, &a, &b, &c1, &d)) return 0;
    if (!(c1 >> 27 & 1)) return 0; /* OSXSAVE: without it xgetbv does not exist */
    uint64_t xcr0 = read_xcr0(), isa = 0;
    if ((xcr0 & XCR0_AVX) != XCR0_AVX || !(c1 >> 28 & 1)) return 0;
    isa |= bit(c1, 12, PAWL_ISA_FMA) | bit(c1, 29, PAWL_ISA_F16C);
    uint32_t a7, b7, c7, d7;
    if (!__get_cpuid_count(7, 0, &a7, &b7, &c7, &d7)) return isa;
    uint32_t subleaves = a7, a71 = 0;
    if (subleaves >= 1) __get_cpuid_count(7, 1, &a71, &b, &c, &d);
    isa |= bit(b7, 5, PAWL_ISA_AVX2) | bit(a71, 4, PAWL_ISA_AVXVNNI);
    if ((xcr0 & XCR0_AVX512) == XCR0_AVX512 && (b7 >> 16 & 1)) {
        isa |= PAWL_ISA_AVX512F | bit(b7, 30, PAWL_ISA_AVX512BW) | bit(b7, 17, PAWL_ISA_AVX512DQ) |
               bit(b7, 31, PAWL_ISA_AVX512VL) | bit(c7, 11, PAWL_ISA_AVX512VNNI) | bit(c7, 1, PAWL_ISA_AVX512VBMI) |
               bit(a71, 5, PAWL_ISA_AVX512BF16);
    }
    if ((xcr0 & XCR0_AMX) == XCR0_AMX && (d7 >> 24 & 1) && amx_granted()) {
        isa |= PAWL_ISA_AMX_TILE | bit(d7, 25, PAWL_ISA_AMX_INT8) | bit(d7, 22, PAWL_ISA_AMX_BF16);
    }
    return isa;
}

static void probe_name(char *out, size_t cap)
{
    uint32_t r[12], max = __get_cpuid_max(0x80000000u, NULL);
    if (max < 0x80000004u) return;
    for (uint32_t i = 0; i < 3; i++)
        __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    char text[sizeof r + 1];
    memcpy(text, r, sizeof r);
    text[sizeof r] = 0;
    size_t n = 0;
    for (const char *s = text; *s && n + 1 < cap; s++) {
        if (*s == ' ' && (n == 0 || out[n - 1] == ' ')) continue; /* the string is padded */
        out[n++] = *s;
    }
    while (n > 0 && out[n - 1] == ' ') n--;
    out[n] = 0;
}
#elif defined(__aarch64__)
#include <sys/auxv.h>

/* Bits of the kernel's Documentation/arch/arm64/elf_hwcaps.rst. */
enum { HW_ASIMD = 1 << 1, HW_ASIMDDP = 1 << 20, HW_SVE = 1 << 22, HW2_I8MM = 1 << 13 };

static uint64_t probe_isa(void)
{
    unsigned long hw = getauxval(AT_HWCAP), hw2 = getauxval(AT_HWCAP2);
    uint64_t isa = 0;
    if (hw & HW_ASIMD) isa |= PAWL_ISA_NEON;
    if (hw & HW_ASIMDDP) isa |= PAWL_ISA_DOTPROD;
    if (hw & HW_SVE) isa |= PAWL_ISA_SVE;
    if (hw2 & HW2_I8MM) isa |= PAWL_ISA_I8MM;
    return isa;
}

static void probe_name(char *out, size_t cap)
{
    snprintf(out, cap, "aarch64");
}
#else
static uint64_t probe_isa(void)
{
    return 0;
}

static void probe_name(char *out, size_t cap)
{
    snprintf(out, cap, "unknown");
}
#endif

/* CPUs in the affinity mask. The set is grown until the kernel's own fits (it refuses a smaller one). */
static int affinity_cpus(void)
{
    for (int n = 1024; n <= 1 << 18; n *= 2) {
        cpu_set_t *set = CPU_ALLOC(n);
        if (!set) return 0;
        size_t size = CPU_ALLOC_SIZE(n);
        int count = sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0) return count;
    }
    return 0;
}

static size_t probe_l2(void)
{
    for (int i = 0; i < 8; i++) {
        char path[96], text[32];
        int level = 0;
        unsigned long kib = 0;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        FILE *f = fopen(path, "re");
        if (!f) break;
        if (fgets(text, sizeof text, f)) level = atoi(text);
        fclose(f);
        if (level != 2) continue;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        f = fopen(path, "re");
        if (!f) break;
        char unit = 0;
        if (fscanf(f, "%lu%c", &kib, &unit) < 2 || unit != 'K') kib = 0;
        fclose(f);
        if (kib) return kib * 1024;
    }
    long v = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return v > 0 ? (size_t)v : 0;
}

void pawl__caps_probe(pawl_caps *out)
{
    memset(out, 0, sizeof *out);
    out->arch = PAWL_ARCH_CPU;
    out->isa = probe_isa();
    probe_name(out->name, sizeof out->name);
    pawl_cgroup g = pawl__cgroup_read("/proc/self/cgroup", "/sys/fs/cgroup");

    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int cores = affinity_cpus();
    if (online > 0 && (cores == 0 || online < cores)) cores = (int)online;
    if (g.cpus > 0 && (cores == 0 || g.cpus < cores)) cores = g.cpus;
    out->cores = cores > 0 ? cores : 1;

    out->l2 = probe_l2();
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0) out->mem = (size_t)pages * (size_t)page;
    if (g.mem > 0 && (out->mem == 0 || g.mem < out->mem)) out->mem = g.mem;
}
