/* Capabilities: text forms, levels, control-group limits from an invented tree, and what a probe must always give. */
#include "check.h"

#include <limits.h>
#include <unistd.h>
#include <sys/stat.h>

#include "device/caps.h"
#include "device/cgroup.h"

static pawl_status parse(const char *text, pawl_caps *out, pawl_err *err)
{
    return pawl__caps_parse(text, strlen(text), out, err);
}

static int caps_equal(const pawl_caps *a, const pawl_caps *b)
{
    return a->arch == b->arch && a->cc == b->cc && a->isa == b->isa && a->slow == b->slow && a->cores == b->cores &&
           a->sms == b->sms && a->l2 == b->l2 && a->smem == b->smem && a->mem == b->mem && a->driver == b->driver;
}

static void test_known_texts(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "cpu isa=avx2,fma,f16c cores=2 l2=512k mem=24g",
        "cuda cc=90 sms=132 smem=227k mem=141g",
        "cuda cc=100 sms=148 l2=126m smem=227k mem=180g driver=12080",
        "cpu",
        "cpu isa=neon,dotprod,i8mm,sve cores=64",
        "cpu isa=avx2,avx512f slow=avx512f l2=1000",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        pawl_caps c;
        pawl_err err;
        pawl_buf out = {0};
        check_ok(parse(texts[i], &c, &err), &err);
        pawl__caps_print(&c, &out);
        assert_string_equal(out.data, texts[i]);
        pawl__buf_free(&out);
    }
    pawl_caps c;
    pawl_err err;
    check_ok(parse("  cuda\tmem=1g  cc=90 ", &c, &err), &err);
    assert_int_equal(c.cc, 90);
    assert_int_equal(c.mem, 1 << 30);
}

static void test_bad_texts(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "empty"},
        {"gpu cc=90", "expected cpu or cuda"},
        {"cpu isa=avx3", "unknown CPU feature \"avx3\""},
        {"cpu isa=", "unknown CPU feature"},
        {"cpu isa=avx2,", "unknown CPU feature"},
        {"cpu cc=90", "unknown key in \"cc=90\""},
        {"cuda cc=90 isa=avx2", "unknown key"},
        {"cuda cc=90 cores", "unknown key in \"cores\""},
        {"cuda sms=132", "cuda needs cc="},
        {"cuda cc=9x", "no number in range"},
        {"cuda cc=90 cc=90", "given twice"},
        {"cpu cores=99999999999999999999", "no number in range"},
        {"cpu mem=99999999999g", "no size in range"},
        {"cpu mem=-1", "no size in range"},
        {"cpu mem=g", "no size in range"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        pawl_caps c;
        pawl_err err;
        check_fails(parse(bad[i].text, &c, &err), PAWL_EINVAL, &err, bad[i].words);
    }
}

static void test_print_parse_equal(void **state)
{
    (void)state;
    uint64_t s = check_seed("caps");
    for (int i = 0; i < 2000; i++) {
        pawl_caps c = {0}, back;
        c.arch = pawl__rng_next(&s) % 2 ? PAWL_ARCH_CUDA : PAWL_ARCH_CPU;
        c.l2 = (size_t)(pawl__rng_next(&s) % 5 << pawl__rng_next(&s) % 40);
        c.mem = (size_t)(pawl__rng_next(&s) >> (14 + pawl__rng_next(&s) % 50));
        if (c.arch == PAWL_ARCH_CUDA) {
            c.cc = 1 + (int)(pawl__rng_next(&s) % 130);
            c.sms = (int)(pawl__rng_next(&s) % 200);
            c.smem = (size_t)(pawl__rng_next(&s) % 300 * 1024);
            c.driver = (int)(pawl__rng_next(&s) % 20000);
        } else {
            c.isa = pawl__rng_next(&s) & (PAWL_ISA_SVE * 2 - 1);
            c.slow = pawl__rng_next(&s) & c.isa;
            c.cores = (int)(pawl__rng_next(&s) % 256);
        }
        pawl_buf out = {0};
        pawl_err err;
        pawl__caps_print(&c, &out);
        check_ok(parse(out.data, &back, &err), &err);
        if (!caps_equal(&c, &back)) fail_msg("%s came back otherwise", out.data);
        pawl__buf_free(&out);
    }
}

static void test_levels(void **state)
{
    (void)state;
    uint64_t ref = 1, avx2 = 0, avx512 = 0, amx = 0, native = 0;
    pawl_err err;
    check_ok(pawl__isa_level("ref", &ref, &err), &err);
    check_ok(pawl__isa_level("avx2", &avx2, &err), &err);
    check_ok(pawl__isa_level("avx512", &avx512, &err), &err);
    check_ok(pawl__isa_level("amx", &amx, &err), &err);
    check_ok(pawl__isa_level("native", &native, &err), &err);
    assert_int_equal(ref, 0);
    assert_int_equal(avx2, PAWL_ISA_AVX2 | PAWL_ISA_FMA | PAWL_ISA_F16C);
    assert_true((avx512 & avx2) == avx2 && (avx512 & PAWL_ISA_AVX512F) && !(avx512 & PAWL_ISA_AMX_TILE));
    assert_true((amx & avx512) == avx512 && (amx & PAWL_ISA_AMX_BF16));
    assert_true(native == UINT64_MAX);
    check_fails(pawl__isa_level("sse", &ref, &err), PAWL_EINVAL, &err, "unknown instruction-set level \"sse\"");
}

static char tree[] = "/tmp/pawl-cgroup-XXXXXX";

/* Writes tree/path, making the folders on the way. */
static void put(const char *path, const char *text)
{
    char full[PATH_MAX];
    snprintf(full, sizeof full, "%s/%s", tree, path);
    for (char *p = full + strlen(tree) + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        mkdir(full, 0700);
        *p = '/';
    }
    FILE *f = fopen(full, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static pawl_cgroup read_groups(const char *membership)
{
    char path[PATH_MAX];
    put("self", membership);
    snprintf(path, sizeof path, "%s/self", tree);
    return pawl__cgroup_read(path, tree);
}

static void test_cgroups(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(tree));
    pawl_cgroup g = read_groups("0::/\n");
    assert_int_equal(g.cpus, 0);
    assert_int_equal(g.mem, 0);

    /* version 2: the tightest of all levels; quotas round down, and never below one */
    put("a/cpu.max", "max 100000\n");
    put("a/memory.max", "max\n");
    put("a/b/cpu.max", "350000 100000\n");
    put("a/b/memory.max", "1000000\n");
    put("a/b/c/cpu.max", "600000 100000\n");
    put("a/b/c/memory.max", "2000000\n");
    g = read_groups("0::/a/b/c\n");
    assert_int_equal(g.cpus, 3);
    assert_int_equal(g.mem, 1000000);
    put("a/b/c/cpu.max", "50000 100000\n");
    assert_int_equal(read_groups("0::/a/b/c\n").cpus, 1);
    assert_int_equal(read_groups("0::/a\n").cpus, 0);
    /* inside a container the path may not exist below the mount point */
    put("cpu.max", "200000 100000\n");
    assert_int_equal(read_groups("0::/host/slice/x\n").cpus, 2);
    put("cpu.max", "200000 0\n");
    assert_int_equal(read_groups("0::/host\n").cpus, 0);
    put("cpu.max", "99999999999999999999999 1\n");
    assert_int_equal(read_groups("0::/host\n").cpus, 0);

    /* version 1 */
    put("cpu,cpuacct/x/cpu.cfs_quota_us", "450000\n");
    put("cpu,cpuacct/x/cpu.cfs_period_us", "100000\n");
    put("cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
    put("cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    put("memory/x/memory.limit_in_bytes", "5000000\n");
    put("memory/memory.limit_in_bytes", "9223372036854771712\n");
    g = read_groups("5:cpu,cpuacct:/x\n4:memory:/x\n3:pids:/y\nbroken\n1:\n");
    assert_int_equal(g.cpus, 4);
    assert_int_equal(g.mem, 5000000);

    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -r %s", tree);
    assert_int_equal(system(command), 0);
}

static void test_probe(void **state)
{
    (void)state;
    pawl_caps c;
    pawl__caps_probe(&c);
    assert_int_equal(c.arch, PAWL_ARCH_CPU);
    assert_true(c.cores >= 1 && c.cores <= sysconf(_SC_NPROCESSORS_ONLN));
    assert_true(c.mem > 0 && c.mem <= (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE));
    assert_true(c.name[0] && strlen(c.name) < sizeof c.name);
#if defined(__x86_64__)
    /* the compiler's own look at CPUID and XCR0 */
    __builtin_cpu_init();
    assert_int_equal((c.isa & PAWL_ISA_AVX2) != 0, __builtin_cpu_supports("avx2") != 0);
    assert_int_equal((c.isa & PAWL_ISA_FMA) != 0, __builtin_cpu_supports("fma") != 0);
    assert_int_equal((c.isa & PAWL_ISA_AVX512F) != 0, __builtin_cpu_supports("avx512f") != 0);
    assert_int_equal((c.isa & PAWL_ISA_AVX512BW) != 0, __builtin_cpu_supports("avx512bw") != 0);
    assert_int_equal((c.isa & PAWL_ISA_AVX512VNNI) != 0, __builtin_cpu_supports("avx512vnni") != 0);
    assert_int_equal((c.isa & PAWL_ISA_AVX512BF16) != 0, __builtin_cpu_supports("avx512bf16") != 0);
    assert_int_equal((c.isa & PAWL_ISA_AVX512VBMI) != 0, __builtin_cpu_supports("avx512vbmi") != 0);
#endif
    pawl_buf out = {0};
    pawl__caps_print(&c, &out);
    printf("%s (%s)\n", out.data, c.name);
    pawl_caps back;
    pawl_err err;
    check_ok(parse(out.data, &back, &err), &err);
    assert_true(caps_equal(&c, &back));
    pawl__buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_texts), cmocka_unit_test(test_bad_texts), cmocka_unit_test(test_print_parse_equal),
        cmocka_unit_test(test_levels),      cmocka_unit_test(test_cgroups),   cmocka_unit_test(test_probe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
