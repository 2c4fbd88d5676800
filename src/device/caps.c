/* Capabilities as text: parse, print, and the named levels of instruction sets. */
#include "device/caps.h"

#include <string.h>

#include "base/status.h"

static const struct {
    const char *word;
    uint64_t bit;
} features[] = {
    {"avx2", PAWL_ISA_AVX2},
    {"fma", PAWL_ISA_FMA},
    {"f16c", PAWL_ISA_F16C},
    {"avxvnni", PAWL_ISA_AVXVNNI},
    {"avx512f", PAWL_ISA_AVX512F},
    {"avx512bw", PAWL_ISA_AVX512BW},
    {"avx512dq", PAWL_ISA_AVX512DQ},
    {"avx512vl", PAWL_ISA_AVX512VL},
    {"avx512vnni", PAWL_ISA_AVX512VNNI},
    {"avx512bf16", PAWL_ISA_AVX512BF16},
    {"avx512vbmi", PAWL_ISA_AVX512VBMI},
    {"amxtile", PAWL_ISA_AMX_TILE},
    {"amxint8", PAWL_ISA_AMX_INT8},
    {"amxbf16", PAWL_ISA_AMX_BF16},
    {"neon", PAWL_ISA_NEON},
    {"dotprod", PAWL_ISA_DOTPROD},
    {"i8mm", PAWL_ISA_I8MM},
    {"sve", PAWL_ISA_SVE},
};

enum { N_FEATURES = sizeof features / sizeof *features };

static const uint64_t LEVEL_AVX2 = PAWL_ISA_AVX2 | PAWL_ISA_FMA | PAWL_ISA_F16C;
static const uint64_t LEVEL_AVX512 = PAWL_ISA_AVXVNNI | PAWL_ISA_AVX512F | PAWL_ISA_AVX512BW | PAWL_ISA_AVX512DQ |
                                     PAWL_ISA_AVX512VL | PAWL_ISA_AVX512VNNI | PAWL_ISA_AVX512BF16 |
                                     PAWL_ISA_AVX512VBMI;
static const uint64_t LEVEL_AMX = PAWL_ISA_AMX_TILE | PAWL_ISA_AMX_INT8 | PAWL_ISA_AMX_BF16;

pawl_status pawl__isa_level(const char *word, uint64_t *mask, pawl_err *err)
{
    if (strcmp(word, "ref") == 0) {
        *mask = 0;
    } else if (strcmp(word, "avx2") == 0) {
        *mask = LEVEL_AVX2;
    } else if (strcmp(word, "avx512") == 0) {
        *mask = LEVEL_AVX2 | LEVEL_AVX512;
    } else if (strcmp(word, "amx") == 0) {
        *mask = LEVEL_AVX2 | LEVEL_AVX512 | LEVEL_AMX;
    } else if (strcmp(word, "neon") == 0) {
        *mask = PAWL_ISA_NEON;
    } else if (strcmp(word, "native") == 0) {
        *mask = ~(uint64_t)0;
    } else {
        return pawl__fail(err, PAWL_EINVAL,
                          "unknown instruction-set level \"%.40s\"; expected ref, avx2, avx512, amx, neon or native",
                          word);
    }
    return PAWL_OK;
}

void pawl__isa_print(uint64_t isa, pawl_buf *out)
{
    int first = 1;
    for (int i = 0; i < N_FEATURES; i++) {
        if (!(isa & features[i].bit)) continue;
        pawl__buf_printf(out, "%s%s", first ? "" : ",", features[i].word);
        first = 0;
    }
}

static int same(const char *text, size_t n, const char *word)
{
    return strlen(word) == n && memcmp(text, word, n) == 0;
}

static pawl_status parse_features(const char *s, size_t n, uint64_t *out, pawl_err *err)
{
    uint64_t isa = 0;
    for (size_t i = 0; i <= n;) {
        size_t e = i;
        while (e < n && s[e] != ',') e++;
        int f = 0;
        while (f < N_FEATURES && !same(s + i, e - i, features[f].word)) f++;
        if (f == N_FEATURES) {
            return pawl__fail(err, PAWL_EINVAL, "caps: unknown CPU feature \"%.*s\"", (int)(e - i > 40 ? 40 : e - i),
                              s + i);
        }
        isa |= features[f].bit;
        i = e + 1;
    }
    *out = isa;
    return PAWL_OK;
}

/* Digits, and for sizes a suffix k, m or g for powers of 1024; at most max. */
static int parse_number(const char *s, size_t n, int is_size, uint64_t max, uint64_t *out)
{
    uint64_t v = 0, unit = 1;
    if (n > 0 && is_size) {
        char u = s[n - 1];
        unit = u == 'k' ? 1ull << 10 : u == 'm' ? 1ull << 20 : u == 'g' ? 1ull << 30 : 1;
        if (unit != 1) n--;
    }
    if (n == 0) return 0;
    for (size_t i = 0; i < n; i++) {
        if (s[i] < '0' || s[i] > '9') return 0;
        uint64_t digit = (uint64_t)(s[i] - '0');
        if (v > (max - digit) / 10) return 0;
        v = v * 10 + digit;
    }
    if (v > max / unit) return 0;
    *out = v * unit;
    return 1;
}

enum { MAX_COUNT = 1 << 20 };
static const uint64_t MAX_BYTES = 1ull << 50;

static pawl_status parse_pair(const char *s, size_t n, pawl_caps *c, uint32_t *seen, pawl_err *err)
{
    static const struct {
        const char *key;
        int cuda, is_size; /* cuda: 0 for CPUs, 1 for GPUs, -1 for both */
    } keys[] = {{"isa", 0, 0}, {"slow", 0, 0}, {"cores", 0, 0}, {"cc", 1, 0},    {"sms", 1, 0},
                {"l2", -1, 1}, {"smem", 1, 1}, {"mem", -1, 1},  {"driver", 1, 0}};
    enum { N_KEYS = sizeof keys / sizeof *keys };
    size_t eq = 0;
    while (eq < n && s[eq] != '=') eq++;
    int k = 0, shown = (int)(n > 40 ? 40 : n);
    while (k < N_KEYS && !(eq < n && same(s, eq, keys[k].key))) k++;
    if (k == N_KEYS || (keys[k].cuda >= 0 && keys[k].cuda != (c->arch == PAWL_ARCH_CUDA))) {
        return pawl__fail(err, PAWL_EINVAL, "caps: unknown key in \"%.*s\" for %s", shown, s,
                          c->arch == PAWL_ARCH_CUDA ? "cuda (cc sms l2 smem mem driver)"
                                                    : "cpu (isa slow cores l2 mem)");
    }
    if (*seen >> k & 1) return pawl__fail(err, PAWL_EINVAL, "caps: %s is given twice", keys[k].key);
    *seen |= 1u << k;
    const char *v = s + eq + 1;
    size_t vn = n - eq - 1;
    if (k < 2) return parse_features(v, vn, k == 0 ? &c->isa : &c->slow, err);
    uint64_t x;
    if (!parse_number(v, vn, keys[k].is_size, keys[k].is_size ? MAX_BYTES : MAX_COUNT, &x)) {
        return pawl__fail(err, PAWL_EINVAL, "caps: \"%.*s\" is no %s in range", shown, s,
                          keys[k].is_size ? "size" : "number");
    }
    switch (k) {
    case 2:
        c->cores = (int)x;
        break;
    case 3:
        c->cc = (int)x;
        break;
    case 4:
        c->sms = (int)x;
        break;
    case 5:
        c->l2 = (size_t)x;
        break;
    case 6:
        c->smem = (size_t)x;
        break;
    case 7:
        c->mem = (size_t)x;
        break;
    default:
        c->driver = (int)x;
        break;
    }
    return PAWL_OK;
}

static int is_space(char ch)
{
    return ch == ' ' || ch == '\t' || ch == '\n' || ch == '\r';
}

pawl_status pawl__caps_parse(const char *text, size_t n, pawl_caps *out, pawl_err *err)
{
    pawl_caps c;
    memset(&c, 0, sizeof c);
    uint32_t seen = 0;
    int words = 0;
    for (size_t i = 0; i < n;) {
        if (is_space(text[i])) {
            i++;
            continue;
        }
        size_t e = i;
        while (e < n && !is_space(text[e])) e++;
        if (words++ == 0) {
            if (same(text + i, e - i, "cpu")) {
                c.arch = PAWL_ARCH_CPU;
            } else if (same(text + i, e - i, "cuda")) {
                c.arch = PAWL_ARCH_CUDA;
            } else {
                return pawl__fail(err, PAWL_EINVAL, "caps: begins with \"%.*s\"; expected cpu or cuda",
                                  (int)(e - i > 40 ? 40 : e - i), text + i);
            }
        } else {
            PAWL_TRY(parse_pair(text + i, e - i, &c, &seen, err));
        }
        i = e;
    }
    if (!words) return pawl__fail(err, PAWL_EINVAL, "caps: empty; expected cpu or cuda and key=value pairs");
    if (c.arch == PAWL_ARCH_CUDA && c.cc == 0) {
        return pawl__fail(err, PAWL_EINVAL, "caps: cuda needs cc=, the compute capability (cc=90 for 9.0)");
    }
    *out = c;
    return PAWL_OK;
}

static void print_size(const char *key, size_t v, pawl_buf *out)
{
    if (!v) return;
    static const char units[] = {'g', 'm', 'k'};
    for (int i = 0; i < 3; i++) {
        size_t unit = (size_t)1 << (30 - 10 * i);
        if (v % unit == 0) {
            pawl__buf_printf(out, " %s=%zu%c", key, v / unit, units[i]);
            return;
        }
    }
    pawl__buf_printf(out, " %s=%zu", key, v);
}

void pawl__caps_print(const pawl_caps *c, pawl_buf *out)
{
    if (c->arch == PAWL_ARCH_CUDA) {
        pawl__buf_printf(out, "cuda cc=%d", c->cc);
        if (c->sms) pawl__buf_printf(out, " sms=%d", c->sms);
    } else {
        pawl__buf_puts(out, "cpu");
        if (c->isa) {
            pawl__buf_puts(out, " isa=");
            pawl__isa_print(c->isa, out);
        }
        if (c->slow) {
            pawl__buf_puts(out, " slow=");
            pawl__isa_print(c->slow, out);
        }
        if (c->cores) pawl__buf_printf(out, " cores=%d", c->cores);
    }
    print_size("l2", c->l2, out);
    if (c->arch == PAWL_ARCH_CUDA) print_size("smem", c->smem, out);
    print_size("mem", c->mem, out);
    if (c->arch == PAWL_ARCH_CUDA && c->driver) pawl__buf_printf(out, " driver=%d", c->driver);
}
