/* Runs the routing rows, and fails on an entry that no row picks. */
#include "check.h"
#include "kernels/list/list.h"
#include "rows.h"

static row rows[MAX_ROWS];
static int n_rows;
static pawl_decision decision;

static int check_refusals(const row *r, const pawl_decision *d)
{
    char text[500];
    snprintf(text, sizeof text, "%s", r->refusals);
    int bad = 0;
    for (char *save, *one = strtok_r(text, "|", &save); one; one = strtok_r(NULL, "|", &save)) {
        while (*one == ' ') one++;
        /* "id: words": the colon that a blank follows, since ids have one of their own */
        char *colon = strstr(one, ": ");
        if (!colon) {
            printf("%s: refusal \"%s\" is not \"id: words\"\n", r->where, one);
            return 1;
        }
        *colon = 0;
        char *words = colon + 2;
        size_t len = strlen(words);
        while (len > 0 && words[len - 1] == ' ') words[--len] = 0;
        const char *said = NULL;
        int hit = 0;
        for (int i = 0; i < d->n_refusals; i++) {
            if (strcmp(d->refusals[i].kernel->id, one) != 0) continue;
            said = d->refusals[i].why.text;
            hit |= strstr(said, words) != NULL;
        }
        if (hit) continue;
        printf("%s: %s should be refused with \"%s\", was %s%s\n", r->where, one, words, said ? "refused with " : "not",
               said ? said : "");
        bad = 1;
    }
    return bad;
}

static int check_row(const row *r)
{
    pawl_err err = {PAWL_OK, ""};
    pawl_status s =
        pawl__route(pawl__kernel_table.list[r->query.op], &r->query, &r->caps, &r->policy, NULL, &decision, &err);
    if (strncmp(r->expected, "error: ", 7) == 0) {
        if (s != PAWL_OK && strstr(err.text, r->expected + 7)) return 0;
        printf("%s: expected an error with \"%s\", got %s %s\n", r->where, r->expected + 7, pawl_status_name(s),
               err.text);
        return 1;
    }
    if (s != PAWL_OK) {
        printf("%s: %s\n", r->where, err.text);
        return 1;
    }
    char got[400];
    rows_print_spans(&decision, got, sizeof got);
    if (strcmp(got, r->expected) != 0) {
        printf("%s: expected %s\n    got      %s\n", r->where, r->expected, got);
        return 1;
    }
    return check_refusals(r, &decision);
}

static void test_rows(void **state)
{
    (void)state;
    int bad = 0;
    for (int i = 0; i < n_rows; i++) bad += check_row(&rows[i]);
    printf("%d rows\n", n_rows);
    assert_int_equal(bad, 0);
}

/* Is the id part of the row's expected spans? */
static int picks(const row *r, const char *id)
{
    const char *at = strstr(r->expected, id);
    size_t n = strlen(id);
    for (; at; at = strstr(at + 1, id)) {
        int starts = at == r->expected || at[-1] == '=', ends = at[n] == 0 || at[n] == ',';
        if (starts && ends) return 1;
    }
    return 0;
}

static void test_every_entry_is_picked(void **state)
{
    (void)state;
    int missing = 0;
    for (int op = 0; op < PAWL_OP_COUNT; op++) {
        for (pawl_kernel_list k = pawl__kernel_table.list[op]; k && *k; k++) {
            int hit = 0;
            for (int i = 0; i < n_rows && !hit; i++) hit = picks(&rows[i], (*k)->id);
            if (hit) continue;
            printf("no row picks %s\n", (*k)->id);
            missing++;
        }
    }
    assert_int_equal(missing, 0);
}

int main(void)
{
    n_rows = rows_read("tests/routes", rows);
    if (n_rows <= 0) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_every_entry_is_picked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
