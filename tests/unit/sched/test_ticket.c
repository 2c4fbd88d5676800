#include "check.h"

#include "sched/ticket.h"

static void priority_goes_before_arrival(void **state)
{
    (void)state;
    const pawl_ticket first = {.priority = 0, .order = 1, .since = 5}, urgent = {.priority = 1, .order = 2, .since = 5};
    assert_true(pawl__ticket_before(&urgent, &first, 5));
    assert_false(pawl__ticket_before(&first, &urgent, 5));
}

static void equals_go_in_order_of_arrival(void **state)
{
    (void)state;
    const pawl_ticket a = {.order = 1, .since = 5}, b = {.order = 2, .since = 5};
    assert_true(pawl__ticket_before(&a, &b, 6));
    assert_false(pawl__ticket_before(&b, &a, 6));
    assert_false(pawl__ticket_before(&a, &a, 6));
}

static void waiting_is_worth_priority(void **state)
{
    (void)state;
    const double came = 100, now = came + 2 * PAWL_TICKET_SECONDS;
    const pawl_ticket old = {.priority = 0, .order = 1, .since = came}, one = {.priority = 1, .order = 2, .since = now},
                      three = {.priority = 3, .order = 3, .since = now};
    assert_true(pawl__ticket_before(&old, &one, now));
    assert_false(pawl__ticket_before(&old, &three, now));
    const double later = came + 3 * PAWL_TICKET_SECONDS;
    const pawl_ticket fresh = {.priority = 3, .order = 3, .since = later};
    assert_true(pawl__ticket_before(&old, &fresh, later)); /* worth the same by now, and it came first */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(priority_goes_before_arrival),
        cmocka_unit_test(equals_go_in_order_of_arrival),
        cmocka_unit_test(waiting_is_worth_priority),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
