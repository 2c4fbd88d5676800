/* test_snapshot MODEL: a saved session goes on in another process as it would have here: the next 64 tokens and the numbers of
 * accepted drafts are equal. Damaged bytes are refused and leave the session alone. */
#include "spec/spec.h"

#include <unistd.h>

static const char *model_path, *program;
static pawl_model *model;

enum { MORE = 64 };

static void go_on(pawl_session *s, record *r)
{
    pawl_sampling sm = greedy_sampling();
    sm.temperature = 0.8f;
    sm.seed = 11;
    pawl_generate_options o = generate_options(&sm, 3, MORE);
    generate(s, &o, r);
}

static void print_run(const record *r)
{
    printf("%lld %lld", (long long)r->result.stats.rounds, (long long)r->result.stats.accepted);
    for (int i = 0; i < r->n; i++) printf(" %d", r->ids[i]);
    printf("\n");
}

/* The other process: restores from a file, goes on, prints. */
static int restore_and_print(const char *file)
{
    static record r;
    pawl_err err;
    FILE *f = fopen(file, "rb");
    if (!f || fseek(f, 0, SEEK_END)) return 1;
    size_t n = (size_t)ftell(f);
    rewind(f);
    void *data = malloc(n);
    if (!data || fread(data, 1, n, f) != n) return 1;
    fclose(f);
    pawl_session *s;
    pawl_session_options o = PAWL_INIT(pawl_session_options);
    o.context = 200;
    if (pawl_session_create(model, &o, &s, &err) != PAWL_OK || pawl_session_restore(s, data, n, &err) != PAWL_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    go_on(s, &r);
    print_run(&r);
    pawl_session_destroy(&s);
    free(data);
    return 0;
}

static pawl_session *session_with_some(record *r)
{
    prompt p;
    pawl_session *s = session_of(model, 200, 0);
    make_prompt(model, 2, &p);
    if (p.n > 60) p.n = 60;
    feed(s, p.ids, p.n);
    pawl_sampling sm = greedy_sampling();
    pawl_generate_options o = generate_options(&sm, 2, 37);
    generate(s, &o, r);
    return s;
}

static void another_process_goes_on(void **state)
{
    (void)state;
    static record r;
    static char want[8192], got[8192];
    char file[] = "/tmp/pawl-snapshot-XXXXXX", command[8192];
    pawl_err err;
    void *data;
    size_t n;
    pawl_session *s = session_with_some(&r);
    check_ok(pawl_session_save(s, &data, &n, &err), &err);
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, n), n);
    close(fd);
    go_on(s, &r);
    int at =
        snprintf(want, sizeof want, "%lld %lld", (long long)r.result.stats.rounds, (long long)r.result.stats.accepted);
    for (int i = 0; i < r.n; i++) at += snprintf(want + at, sizeof want - (size_t)at, " %d", r.ids[i]);
    snprintf(command, sizeof command, "'%s' '%s' '%s'", program, model_path, file);
    FILE *p = popen(command, "r");
    assert_non_null(p);
    assert_non_null(fgets(got, sizeof got, p));
    assert_int_equal(pclose(p), 0);
    got[strcspn(got, "\n")] = 0;
    assert_string_equal(got, want);
    unlink(file);
    pawl_free(data);
    pawl_session_destroy(&s);
}

static void damage_is_refused(void **state)
{
    (void)state;
    static record r, again;
    pawl_err err;
    void *data;
    size_t n;
    pawl_session *s = session_with_some(&r), *other = session_with_some(&r);
    check_ok(pawl_session_save(s, &data, &n, &err), &err);
    char *bad = malloc(n + 1);
    uint64_t rng = 3;
    for (int i = 0; i < 60; i++) {
        memcpy(bad, data, n);
        size_t place = i < 40 ? (size_t)below(&rng, 160) : (size_t)below(&rng, (int)n);
        bad[place] = (char)(bad[place] ^ (1 << below(&rng, 8)));
        assert_int_equal(pawl_session_restore(other, bad, n, &err), PAWL_EFORMAT);
        assert_int_equal(pawl_session_restore(other, data, (size_t)below(&rng, (int)n), &err), PAWL_EFORMAT);
    }
    memcpy(bad, data, n);
    assert_int_equal(pawl_session_restore(other, bad, n + 1, &err), PAWL_EFORMAT);
    go_on(s, &r);
    go_on(other, &again);
    same_run("after refusals", &r, &again);
    pawl_session *small = session_of(model, 16, 0);
    assert_int_equal(pawl_session_restore(small, data, n, &err), PAWL_EFORMAT);
    assert_non_null(strstr(err.text, "context"));
    free(bad);
    pawl_free(data);
    pawl_session_destroy(&s);
    pawl_session_destroy(&other);
    pawl_session_destroy(&small);
}

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    program = argv[0];
    model_path = argv[1];
    model = open_model(model_path, NULL);
    int failed;
    if (argc > 2) {
        failed = restore_and_print(argv[2]);
    } else {
        const struct CMUnitTest tests[] = {cmocka_unit_test(another_process_goes_on),
                                           cmocka_unit_test(damage_is_refused)};
        failed = cmocka_run_group_tests(tests, NULL, NULL);
    }
    pawl_model_close(&model);
    return failed;
}
