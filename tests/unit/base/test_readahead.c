/* Reading ahead: all pages come in, a cut file and an early stop do no harm. */
#include "check.h"

#include <sys/mman.h>
#include <unistd.h>

#include "base/file.h"
#include "base/readahead.h"

enum { SIZE = 5 * 1024 * 1024 + 77 };

static void make_file(char path[64], pawl_map *map)
{
    pawl_err err;
    strcpy(path, "/tmp/pawl-readahead-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, SIZE), 0);
    close(fd);
    check_ok(pawl__map_open(path, map, &err), &err);
}

/* Waits until all bytes are gone through, or a very long time. */
static void wait_for(const pawl_readahead *r, uint64_t bytes)
{
    for (int i = 0; i < 60000 && pawl__readahead_done(r) < bytes; i++) usleep(1000);
    assert_int_equal(pawl__readahead_done(r), bytes);
}

static void all_pages_come_in(void **state)
{
    (void)state;
    char path[64];
    pawl_map map;
    make_file(path, &map);
    const pawl_range range[2] = {{map.data + 100, 3 << 20}, {map.data + (4 << 20), SIZE - (4 << 20)}};
    pawl_readahead *r = pawl__readahead_start(range, 2);
    assert_non_null(r);
    wait_for(r, range[0].bytes + range[1].bytes);
    unsigned char in[SIZE / 4096 + 2];
    assert_int_equal(mincore((void *)(size_t)map.data, SIZE, in), 0);
    assert_true(in[0] & 1);
    assert_true(in[(3 << 20) / 4096 - 1] & 1);
    assert_true(in[SIZE / 4096] & 1);
    pawl__readahead_stop(&r);
    assert_null(r);
    pawl__readahead_stop(&r);
    pawl__map_close(&map);
    unlink(path);
}

static void a_cut_file_does_no_harm(void **state)
{
    (void)state;
    char path[64];
    pawl_map map;
    make_file(path, &map);
    assert_int_equal(truncate(path, 4096), 0);
    const pawl_range range = {map.data, SIZE};
    pawl_readahead *r = pawl__readahead_start(&range, 1);
    assert_non_null(r);
    wait_for(r, SIZE);
    pawl__readahead_stop(&r);
    pawl__map_close(&map);
    unlink(path);
}

static void it_can_be_stopped_at_once(void **state)
{
    (void)state;
    char path[64];
    pawl_map map;
    make_file(path, &map);
    const pawl_range range = {map.data, SIZE};
    for (int i = 0; i < 20; i++) {
        pawl_readahead *r = pawl__readahead_start(&range, 1);
        assert_non_null(r);
        pawl__readahead_stop(&r);
    }
    pawl_readahead *nothing = pawl__readahead_start(NULL, 0);
    assert_non_null(nothing);
    pawl__readahead_stop(&nothing);
    pawl__map_close(&map);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pages_come_in),
        cmocka_unit_test(a_cut_file_does_no_harm),
        cmocka_unit_test(it_can_be_stopped_at_once),
    };
    return cmocka_run_group_tests_name("readahead", tests, NULL, NULL);
}
