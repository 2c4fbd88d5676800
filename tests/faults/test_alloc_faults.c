/* test_alloc_faults MODEL STRIDE [json]: opening a model, a session and a short answer, with the n-th allocation failing, for
 * n = 1, 1 + STRIDE, ... until all succeed. Each time: PAWL_ENOMEM with a sentence, no crash; under AddressSanitizer also no
 * leak. json: allocations of the JSON library fail too; in its version 2.14 an assertion of its own then ends the program
 * where a string has escapes, so this is for models without such strings. */
#include "check.h"

#include <errno.h>
#include <jansson.h>

#include "pawl/pawl.h"

/* The linker sends the library's calls to __wrap_x and ours of __real_x to the C library (ld, --wrap). */
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
int __real_posix_memalign(void **out, size_t align, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
int __wrap_posix_memalign(void **out, size_t align, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
char *__wrap_strdup(const char *s);

static long countdown; /* allocations until the one that fails; 0: none does */
static int failed, failed_in_json;

static int fails(void)
{
    if (countdown == 0 || --countdown > 0) return 0;
    failed = 1;
    errno = ENOMEM;
    return 1;
}

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
    return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

int __wrap_posix_memalign(void **out, size_t align, size_t n)
{
    return fails() ? ENOMEM : __real_posix_memalign(out, align, n);
}

void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return fails() ? NULL : __real_aligned_alloc(align, n);
}

char *__wrap_strdup(const char *s)
{
    return fails() ? NULL : __real_strdup(s);
}

/* That library is shared, so that the linker does not reach its calls; it calls a failed allocation bad syntax in places. */
static void *json_alloc(size_t n)
{
    failed_in_json |= countdown == 1;
    return __wrap_malloc(n);
}

static const char *model_path;
static long stride;

enum { TOKENS = 8 };

static int keep(const pawl_token *t, void *user)
{
    int32_t *ids = user;
    ids[1 + ids[0]++] = t->id;
    return 0;
}

/* ids: the count, then the tokens. */
static pawl_status run(int32_t *ids, pawl_err *err)
{
    static const int32_t prompt[] = {5, 60, 300, 7};
    pawl_model *m = NULL;
    pawl_session *s = NULL;
    pawl_model_options mo = PAWL_INIT(pawl_model_options);
    mo.threads = 2;
    pawl_sampling g = PAWL_INIT(pawl_sampling);
    g.temperature = 0.9f;
    g.top_k = 50;
    g.top_p = g.repetition_penalty = 1;
    g.frequency_penalty = 0.2f;
    g.has_seed = 1;
    pawl_generate_options o = PAWL_INIT(pawl_generate_options);
    o.sampling = &g;
    o.max_tokens = TOKENS;
    o.draft = 3;
    o.ignore_eos = 1;
    pawl_session_options so = PAWL_INIT(pawl_session_options);
    so.context = 64;
    so.chunk = 16;
    ids[0] = 0;
    pawl_status st = pawl_model_open(model_path, &mo, &m, err);
    if (st == PAWL_OK) st = pawl_session_create(m, &so, &s, err);
    if (st == PAWL_OK) st = pawl_session_feed(s, prompt, 4, err);
    if (st == PAWL_OK) st = pawl_generate(s, &o, keep, ids, NULL, err);
    pawl_session_destroy(&s);
    pawl_model_close(&m);
    return st;
}

static void nth_allocation_fails(void **state)
{
    (void)state;
    int32_t want[TOKENS + 1], got[TOKENS + 1];
    pawl_err err;
    check_ok(run(want, &err), &err);
    assert_int_equal(want[0], TOKENS);
    long n = 1, survived = 0;
    for (;; n += stride) {
        memset(&err, 0, sizeof err);
        failed = failed_in_json = 0;
        countdown = n;
        pawl_status st = run(got, &err);
        countdown = 0;
        if (!failed) break;
        if (st == PAWL_OK) {
            /* What can do without the memory may go on, but then nothing is lost. */
            assert_memory_equal(got, want, sizeof want);
            survived++;
            continue;
        }
        if (st == PAWL_EFORMAT && failed_in_json && *err.text) continue;
        if (st != PAWL_ENOMEM || !*err.text)
            fail_msg("allocation %ld: %s \"%s\", expected ENOMEM with a sentence", n, pawl_status_name(st), err.text);
    }
    printf("%ld allocations failed one by one, %ld were done without\n", n - 1, survived);
    assert_true(n > 100);
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: test_alloc_faults MODEL STRIDE [json]\n");
        return 2;
    }
    model_path = argv[1];
    stride = strtol(argv[2], NULL, 10);
    if (argc > 3) json_set_alloc_funcs(json_alloc, free);
    const struct CMUnitTest tests[] = {cmocka_unit_test(nth_allocation_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
