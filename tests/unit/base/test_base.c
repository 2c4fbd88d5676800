/* Status texts, arenas, strings, UTF-8, JSON look-ups, the thread pool. */
#include "check.h"

#include <stdatomic.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/pool.h"
#include "base/utf8.h"

static void errors_are_one_printable_line(void **state)
{
    (void)state;
    pawl_err err;
    assert_int_equal(pawl__fail(&err, PAWL_EFORMAT, "bad \x1b[31m name\n"), PAWL_EFORMAT);
    assert_string_equal(err.text, "bad ?[31m name?");
    assert_int_equal(pawl__fail_in(&err, "file %d", 7), PAWL_EFORMAT);
    assert_string_equal(err.text, "file 7: bad ?[31m name?");
    assert_int_equal(pawl__fail(NULL, PAWL_EIO, "x"), PAWL_EIO);
}

static void arenas(void **state)
{
    (void)state;
    pawl_arena *a = pawl__arena_create(1 << 20);
    for (int i = 0; i < 100; i++) {
        unsigned char *p = pawl__arena_alloc(a, 1000);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (int j = 0; j < 1000; j++) assert_int_equal(p[j], 0);
        memset(p, 0xff, 1000);
    }
    assert_null(pawl__arena_alloc(a, 1 << 20));
    assert_null(pawl__arena_array(a, SIZE_MAX / 2, 4));
    assert_null(pawl__arena_alloc(a, SIZE_MAX));
    pawl__arena_destroy(&a);
    assert_null(a);

    a = pawl__arena_create_fixed(4096);
    pawl__arena_poison(a, 1);
    float *f = pawl__arena_alloc(a, 64);
    assert_true(f[3] != f[3]);
    size_t mark = pawl__arena_used(a);
    assert_non_null(pawl__arena_alloc(a, 4000));
    assert_null(pawl__arena_alloc(a, 64));
    pawl__arena_release(a, mark);
    assert_non_null(pawl__arena_alloc(a, 64));
    assert_int_equal(pawl__arena_peak(a), 64 + 4032);
    pawl__arena_destroy(&a);
}

static void strings_stop_at_their_limit(void **state)
{
    (void)state;
    pawl_buf b = {.limit = 10};
    pawl__buf_puts(&b, "hello");
    pawl__buf_printf(&b, "%d", 12345);
    assert_string_equal(b.data, "hello12345");
    assert_false(b.failed);
    pawl__buf_putc(&b, 'x');
    assert_true(b.failed);
    assert_string_equal(b.data, "hello12345");
    pawl__buf_free(&b);
}

static void utf8(void **state)
{
    (void)state;
    static const struct {
        const char *s;
        int len;
        uint32_t cp;
        size_t skip;
    } cases[] = {
        {"a", 1, 'a', 0},
        {"\xc3\xa9", 2, 0xe9, 0},
        {"\xe2\x82\xac", 3, 0x20ac, 0},
        {"\xf0\x9f\x8d\xa3", 4, 0x1f363, 0},
        {"\xf4\x8f\xbf\xbf", 4, 0x10ffff, 0},
        {"\x80", PAWL_UTF8_BAD, 0, 1},
        {"\xc0\x80", PAWL_UTF8_BAD, 0, 1},
        {"\xed\xa0\x80", PAWL_UTF8_BAD, 0, 1},
        {"\xe2\x82 ", PAWL_UTF8_BAD, 0, 2},
        {"\xf0\x9f\x8d", PAWL_UTF8_CUT, 0, 3},
        {"\xf4\x90", PAWL_UTF8_BAD, 0, 1},
        {"\xff", PAWL_UTF8_BAD, 0, 1},
        {"\xe0\x80", PAWL_UTF8_BAD, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t cp = 0;
        size_t skip = 0;
        int len = pawl__utf8_decode(cases[i].s, strlen(cases[i].s), &cp, &skip);
        assert_int_equal(len, cases[i].len);
        if (len > 0)
            assert_int_equal(cp, cases[i].cp);
        else
            assert_int_equal(skip, cases[i].skip);
    }
    for (uint32_t cp = 0; cp < 0x110000; cp++) {
        if (cp >= 0xd800 && cp < 0xe000) continue;
        char out[4];
        uint32_t back;
        int n = pawl__utf8_encode(cp, out);
        assert_int_equal(pawl__utf8_decode(out, (size_t)n, &back, NULL), n);
        assert_int_equal(back, cp);
    }
    assert_int_equal(pawl__utf8_valid("ab\xff", 3), 2);
}

static void json_lookups_name_the_key(void **state)
{
    (void)state;
    pawl_err err;
    json_t *j;
    const char *text = "{\"n\": 7, \"s\": \"x\", \"f\": 1.5, \"z\": null}";
    check_ok(pawl__json_parse(text, strlen(text), "t", &j, &err), &err);
    int64_t n = 1;
    check_ok(pawl__json_get_int(j, "n", 0, 10, &n, &err), &err);
    assert_int_equal(n, 7);
    check_ok(pawl__json_get_int(j, "z", 0, 10, &n, &err), &err);
    assert_int_equal(n, 7);
    check_fails(pawl__json_get_int(j, "n", 8, 10, &n, &err), PAWL_EFORMAT, &err, "n: expected 8 to 10, found 7");
    check_fails(pawl__json_get_int(j, "s", 0, 10, &n, &err), PAWL_EFORMAT, &err,
                "s: expected an integer, found a string");
    double d;
    check_fails(pawl__json_get_num(j, "s", 0, 1, &d, &err), PAWL_EFORMAT, &err, "expected a number");
    json_decref(j);
    check_fails(pawl__json_parse("{\"a\":1,\"a\":2}", 13, "t", &j, &err), PAWL_EFORMAT, &err, "duplicate");
}

typedef struct {
    atomic_int hits[1000];
    atomic_int bad_thread;
    int threads;
} pool_ctx;

static void count_task(void *ctx, int task, int thread)
{
    pool_ctx *c = ctx;
    atomic_fetch_add(&c->hits[task], 1);
    if (thread < 0 || thread >= c->threads) atomic_store(&c->bad_thread, 1);
}

static void every_task_runs_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 4; threads++) {
        pawl_pool *p;
        pawl_err err;
        check_ok(pawl__pool_create(threads, &p, &err), &err);
        assert_int_equal(pawl__pool_threads(p), threads);
        static pool_ctx c;
        memset(&c, 0, sizeof c);
        c.threads = threads;
        int rounds = 0;
        for (int n = 0; n <= 1000; n = n * 2 + 1, rounds++) {
            memset(c.hits, 0, sizeof c.hits);
            pawl__pool_run(p, n, count_task, &c);
            for (int i = 0; i < 1000; i++) assert_int_equal(atomic_load(&c.hits[i]), i < n);
        }
        for (int i = 0; i < 2000; i++) pawl__pool_run(p, 3, count_task, &c);
        assert_int_equal(atomic_load(&c.bad_thread), 0);
        pawl__pool_destroy(&p);
        assert_null(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_one_printable_line), cmocka_unit_test(arenas),
        cmocka_unit_test(strings_stop_at_their_limit),   cmocka_unit_test(utf8),
        cmocka_unit_test(json_lookups_name_the_key),     cmocka_unit_test(every_task_runs_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
