/* test_alloc MODEL: after the first step generating allocates nothing, drafting or not. This program's own malloc and its
 * kin count the calls of every thread and library, and pass them on to the C library's. */
#include "spec/spec.h"

#include <errno.h>
#include <stdatomic.h>

/* glibc's own names for the functions that are replaced here. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

static atomic_long calls;

void *malloc(size_t n)
{
    atomic_fetch_add(&calls, 1);
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    atomic_fetch_add(&calls, 1);
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    atomic_fetch_add(&calls, 1);
    return __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    atomic_fetch_add(&calls, 1);
    return __libc_memalign(align, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    atomic_fetch_add(&calls, 1);
    *out = __libc_memalign(align, n);
    return *out ? 0 : ENOMEM;
}

static const char *model_path;

typedef struct counted {
    int n;
    long at[MAX_IDS]; /* calls so far when token i came */
} counted;

static int count(const pawl_token *t, void *user)
{
    (void)t;
    counted *c = user;
    c->at[c->n++] = atomic_load(&calls);
    return 0;
}

static void nothing_after_the_first_step(void **state)
{
    (void)state;
    static const int drafts[] = {0, 1, 4, 8, PAWL_DRAFT_AUTO};
    static counted c;
    long start = atomic_load(&calls);
    pawl_model *m = open_model(model_path, NULL);
    assert_true(atomic_load(&calls) > start); /* the counter counts */
    for (int sampled = 0; sampled < 2; sampled++)
        for (size_t i = 0; i < sizeof drafts / sizeof drafts[0]; i++) {
            pawl_session *s = session_of(m, 200, 64);
            pawl_sampling g = greedy_sampling();
            if (sampled) {
                g.temperature = 0.8f;
                g.top_k = 40;
                g.top_p = 0.9f;
                g.min_p = 0.01f;
                g.presence_penalty = 0.5f;
                g.repetition_penalty = 1.1f;
            }
            prompt p;
            make_prompt(m, 0, &p);
            feed(s, p.ids, p.n);
            pawl_generate_options o = generate_options(&g, drafts[i], 100);
            pawl_err err;
            c.n = 0;
            check_ok(pawl_generate(s, &o, count, &c, NULL, &err), &err);
            assert_int_equal(c.n, 100);
            /* Token 0 is prefill's, token 1 the first step's; a step's later tokens come with the first of them. */
            for (int t = 3; t < c.n; t++)
                if (c.at[t] != c.at[2])
                    fail_msg("draft %d: %ld allocations by token %d", drafts[i], c.at[t] - c.at[2], t);
            pawl_session_destroy(&s);
        }
    pawl_model_close(&m);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: test_alloc MODEL\n");
        return 2;
    }
    model_path = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_after_the_first_step)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
