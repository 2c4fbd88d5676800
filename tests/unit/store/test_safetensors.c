/* safetensors files, well-formed and not: every rule of the format has a file that breaks it, with its message. */
#include "check.h"
#include "folder.h"
#include "store/safetensors.h"

/* Parses header + n data bytes in a block of exactly that size, so that a sanitizer sees a read past its end. */
static pawl_status parse_n(const char *header, size_t len, size_t n, pawl_safetensors **out, pawl_err *err)
{
    unsigned char *block = malloc(8 + len + n);
    for (int i = 0; i < 8; i++) block[i] = (unsigned char)((uint64_t)len >> (8 * i));
    memcpy(block + 8, header, len);
    for (size_t i = 0; i < n; i++) block[8 + len + i] = (unsigned char)i;
    pawl_status s = pawl__safetensors_parse(block, 8 + len + n, "file", out, err);
    if (s == PAWL_OK) { /* all that is returned must be readable while the block lives */
        unsigned sum = 0;
        for (size_t i = 0; i < pawl__safetensors_count(*out); i++) {
            const pawl_tensor *t = pawl__safetensors_at(*out, i);
            for (size_t j = 0; j < t->bytes; j++) sum += t->data[j];
            assert_ptr_equal(pawl__safetensors_find(*out, t->name), t);
        }
        assert_true(sum < UINT32_MAX);
    }
    free(block);
    return s;
}

static void accept(const char *header, size_t n, size_t count)
{
    pawl_safetensors *f;
    pawl_err err;
    check_ok(parse_n(header, strlen(header), n, &f, &err), &err);
    assert_int_equal(pawl__safetensors_count(f), count);
    pawl__safetensors_close(&f);
    assert_null(f);
}

static void refuse(const char *header, size_t n, const char *words)
{
    pawl_safetensors *f;
    pawl_err err;
    check_fails(parse_n(header, strlen(header), n, &f, &err), PAWL_EFORMAT, &err, words);
    assert_null(f);
    assert_non_null(strstr(err.text, "file")); /* every message names the file */
}

#define T(name, dtype, shape, begin, end)                                                                              \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static void accepts(void **state)
{
    (void)state;
    accept("{}", 0, 0);
    accept("{}      ", 0, 0);
    accept("{\"__metadata__\":{\"format\":\"pt\"}}", 0, 0);
    accept("{\"__metadata__\":{}," T("a", "F32", "[2]", 0, 8) "}", 8, 1);
    accept("{" T("s", "F32", "[]", 0, 4) "}", 4, 1);                                /* scalar */
    accept("{" T("e", "F32", "[0,7]", 0, 0) "}", 0, 1);                             /* empty */
    accept("{" T("b", "U8", "[3]", 4, 7) "," T("a", "F32", "[1]", 0, 4) "}", 7, 2); /* any order in the header */
    accept("{" T("a", "U8", "[3]", 0, 3) "," T("e", "U8", "[0]", 3, 3) "," T("b", "F32", "[1]", 3, 7) "}", 7, 3);
    accept("{" T("f", "F4", "[2,3]", 0, 3) "}", 3, 1);
    accept("{" T("f", "F6_E2M3", "[4]", 0, 3) "}", 3, 1);
    accept("{" T("x", "F8_E4M3FNUZ", "[5]", 0, 3) "}", 3, 1); /* an unknown type is its user's business */
    accept("{\"a\":{\"shape\":[1],\"extra\":[{\"x\":null}],\"data_offsets\":[0,1],\"dtype\":\"U8\"}}", 1, 1);
    accept("{" T("n\\u00e9\\ud83d\\ude00\\/", "U8", "[1]", 0, 1) "}", 1, 1);
}

static void reads_fields(void **state)
{
    (void)state;
    const char *header = "{" T("\\u0061.weight", "BF16", "[2, 3]", 4, 16) ", " T("q", "X9", "[2]", 0, 4) "}";
    unsigned char block[8 + 200] = {0};
    size_t len = strlen(header);
    block[0] = (unsigned char)len;
    memcpy(block + 8, header, len);
    pawl_safetensors *f;
    pawl_err err;
    char text[PAWL_TENSOR_TEXT];
    check_ok(pawl__safetensors_parse(block, 8 + len + 16, "file", &f, &err), &err);
    const pawl_tensor *t = pawl__safetensors_find(f, "a.weight");
    assert_non_null(t);
    assert_int_equal(t->dtype, PAWL_BF16);
    assert_int_equal(t->rank, 2);
    assert_int_equal(t->shape[0], 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(t->bytes, 12);
    assert_ptr_equal(t->data, block + 8 + len + 4);
    assert_int_equal(pawl__tensor_count(t), 6);
    assert_string_equal(pawl__tensor_text(t, text), "BF16 [2, 3]");
    const pawl_tensor *q = pawl__safetensors_find(f, "q");
    assert_int_equal(q->dtype, PAWL_DTYPE_COUNT);
    assert_string_equal(pawl__tensor_dtype_name(q), "X9");
    assert_null(pawl__safetensors_find(f, "a"));
    pawl__safetensors_close(&f);
}

static void refuses_lengths(void **state)
{
    (void)state;
    pawl_safetensors *f;
    pawl_err err;
    unsigned char b[64] = {0};
    check_fails(pawl__safetensors_parse(b, 0, "file", &f, &err), PAWL_EFORMAT, &err, "file of 0 bytes");
    check_fails(pawl__safetensors_parse(b, 7, "file", &f, &err), PAWL_EFORMAT, &err, "file of 7 bytes");
    check_fails(pawl__safetensors_parse(b, 64, "file", &f, &err), PAWL_EFORMAT, &err, "does not begin with '{'");
    b[0] = 57;
    check_fails(pawl__safetensors_parse(b, 64, "file", &f, &err), PAWL_EFORMAT, &err,
                "header of 57 bytes, but only 56 follow");
    memset(b, 0xff, 8);
    check_fails(pawl__safetensors_parse(b, 64, "file", &f, &err), PAWL_EFORMAT, &err, "expected at most 100000000");
    const uint64_t over = 100000001;
    for (int i = 0; i < 8; i++) b[i] = (unsigned char)(over >> (8 * i));
    check_fails(pawl__safetensors_parse(b, 64, "file", &f, &err), PAWL_EFORMAT, &err, "header of 100000001 bytes");
}

static void refuses_places(void **state)
{
    (void)state;
    refuse("{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[4]", 2, 6) "}", 6,
           "tensor b: begins at byte 2 of the data, expected 4: it overlaps");
    refuse("{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[4]", 0, 4) "}", 4, "overlaps");
    refuse("{" T("a", "U8", "[4]", 0, 4) "," T("b", "U8", "[1]", 5, 6) "}", 6, "hole");
    refuse("{" T("a", "U8", "[3]", 1, 4) "}", 4, "tensor a: begins at byte 1 of the data, expected 0");
    refuse("{" T("a", "U8", "[4]", 0, 4) "}", 3,
           "tensor a: data_offsets [0, 4] out of range, expected begin <= end <= 3");
    refuse("{" T("a", "U8", "[4]", 0, 4) "}", 5, "tensors end at byte 4 of the data, expected 5");
    refuse("{}", 5, "tensors end at byte 0 of the data, expected 5");
    refuse("{" T("a", "U8", "[4]", 4, 0) "}", 4, "out of range");
    refuse("{" T("a", "U8", "[4]", 0, 9223372036854775807) "}", 4, "out of range");
    refuse("{" T("a", "U8", "[4]", 0, 9223372036854775808) "}", 4, "expected an integer below 2^63");
    refuse("{" T("a", "F32", "[4]", 0, 15) "}", 15, "tensor a: F32 [4] takes 16 bytes, found data_offsets of 15 bytes");
    refuse("{" T("a", "F32", "[4294967296,4294967296]", 0, 4) "}", 4, "tensor a: shape: its product overflows");
    refuse("{" T("a", "X", "[4294967296,4294967296]", 0, 4) "}", 4, "its product overflows");
    refuse("{" T("a", "F64", "[1152921504606846976]", 0, 4) "}", 4, "its size in bits overflows");
    refuse("{" T("a", "F4", "[3]", 0, 2) "}", 2, "not a whole number of bytes");
    refuse("{" T("a", "U8", "[-1]", 0, 2) "}", 2, "expected an integer of at least 0");
    refuse("{" T("a", "U8", "[1.0]", 0, 1) "}", 1, "without fraction");
    refuse("{" T("a", "U8", "[1e1]", 0, 1) "}", 1, "without fraction");
    refuse("{" T("a", "U8", "[01]", 0, 1) "}", 1, "leading zeros");
    refuse("{" T("a", "U8", "[1,1,1,1,1,1,1,1,1]", 0, 1) "}", 1, "tensor a: shape: expected at most 8 dimensions");
    refuse("{" T("a", "U8", "3", 0, 3) "}", 3, "expected '['");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0]}}", 1, "expected ','");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1,2]}}", 1, "expected ']'");
}

static void refuses_names(void **state)
{
    (void)state;
    char header[2000], name[700];
    refuse("{" T("a", "U8", "[1]", 0, 1) "," T("a", "U8", "[1]", 1, 2) "}", 2, "tensor a: name given twice");
    refuse("{" T("a", "U8", "[1]", 0, 1) "," T("\\u0061", "U8", "[1]", 1, 2) "}", 2, "tensor a: name given twice");
    refuse("{" T("a", "U8", "[0]", 0, 0) "," T("a", "U8", "[0]", 0, 0) "}", 0, "name given twice");
    refuse("{" T("", "U8", "[1]", 0, 1) "}", 1, "empty name");
    refuse("{" T("a\\u0000b", "U8", "[1]", 0, 1) "}", 1, "tensor a?b: control character in the name");
    refuse("{" T("a\\nb", "U8", "[1]", 0, 1) "}", 1, "tensor a?b: control character in the name");
    refuse("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ given twice");
    refuse("{\"__metadata__\":{\"a\":1}}", 0, "expected '\"'");
    refuse("{\"__metadata__\":[]}", 0, "expected '{'");
    refuse("{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1, "given twice");
    refuse("{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1, "tensor a: expected dtype, shape and data_offsets");
    refuse("{\"a\":{}}", 0, "tensor a: expected dtype, shape and data_offsets");
    refuse("{\"a\":3}", 0, "expected '{'");
    memset(name, 'x', sizeof name);
    name[PAWL_ST_MAX_NAME] = 0;
    snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", name);
    accept(header, 1, 1);
    name[PAWL_ST_MAX_NAME] = 'x';
    name[PAWL_ST_MAX_NAME + 1] = 0;
    snprintf(header, sizeof header, "{\"%s\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", name);
    refuse(header, 1, "string of more than 512 bytes");
}

static void refuses_text(void **state)
{
    (void)state;
    refuse("[]", 0, "does not begin with '{'");
    refuse(" {}", 0, "does not begin with '{'");
    refuse("{", 0, "JSON ends at byte 1");
    refuse("{\"a", 0, "expected '\"' at the end of a string");
    refuse("{\"a\\x\":{}}", 0, "expected an escape sequence");
    refuse("{\"\\ud800\":{}}", 0, "expected an escape sequence");
    refuse("{\"\\udc00\":{}}", 0, "expected an escape sequence");
    refuse("{\"a\tb\":{}}", 0, "no control character in a string");
    refuse("{} x", 0, "expected nothing after the JSON value");
    refuse("{}{}", 0, "expected nothing after the JSON value");
    refuse("{\"a\":{\"dtype\":\"U8\",}}", 0, "expected '\"'");
    refuse("{\"a\xff\":{}}", 0, "JSON byte 3 is not valid UTF-8");
    refuse("{\"a\":{\"dtype\":\"0123456789012345678901234567890123\",\"shape\":[],\"data_offsets\":[0,0]}}", 0,
           "string of more than 32 bytes");
    refuse("{\"a\":{\"x\":tru,\"dtype\":\"U8\"}}", 0, "expected a value");
    refuse("{\"a\":{\"x\":-,\"dtype\":\"U8\"}}", 0, "expected a value");
    /* a NUL pads nothing */
    pawl_safetensors *f;
    pawl_err err;
    check_fails(parse_n("{}\0\0", 4, 0, &f, &err), PAWL_EFORMAT, &err, "found byte 0x00, expected nothing after");
    /* depth: skipped values nest no deeper than the bound */
    char deep[4000] = "{\"a\":{\"x\":";
    size_t at = strlen(deep);
    memset(deep + at, '[', 1500);
    deep[at + 1500] = 0;
    refuse(deep, 0, "expected less deeply nested values");
}

/* Cutting a good file anywhere gives an error and nothing else. */
static void refuses_truncation(void **state)
{
    (void)state;
    const char *header =
        "{" T("a", "U8", "[3]", 0, 3) "," T("b\\u00e9", "F32", "[1]", 3, 7) ",\"__metadata__\":{\"k\":\"v\"}} ";
    size_t len = strlen(header);
    for (size_t cut = 0; cut < 8 + len + 7; cut++) {
        unsigned char whole[400] = {0};
        whole[0] = (unsigned char)len;
        memcpy(whole + 8, header, len);
        unsigned char *exact = malloc(cut ? cut : 1);
        memcpy(exact, whole, cut);
        pawl_safetensors *f;
        pawl_err err;
        assert_int_equal(pawl__safetensors_parse(exact, cut, "file", &f, &err), PAWL_EFORMAT);
        free(exact);
    }
    for (size_t cut = 1; cut < len - 1; cut++) { /* a shorter header whose length word agrees */
        pawl_safetensors *f;
        pawl_err err;
        assert_int_equal(parse_n(header, cut, 7, &f, &err), PAWL_EFORMAT);
    }
}

static void many_tensors(void **state)
{
    (void)state;
    enum { N = 50000 };
    char *header = malloc(N * 80 + 2);
    size_t at = 0;
    header[at++] = '{';
    for (int i = 0; i < N; i++)
        at += (size_t)sprintf(header + at, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                              i ? "," : "", i, N - 1 - i, N - i);
    header[at++] = '}';
    pawl_safetensors *f;
    pawl_err err;
    check_ok(parse_n(header, at, N, &f, &err), &err);
    assert_int_equal(pawl__safetensors_count(f), N);
    pawl__safetensors_close(&f);
    free(header);
}

static void files(void **state)
{
    (void)state;
    folder d;
    pawl_safetensors *f;
    pawl_err err;
    char path[512];
    folder_make(&d);
    const float x[3] = {1, -2, 3};
    const given t[] = {{{"one \"quoted\" \\ name", PAWL_U8, 1, {3}}, "abc"}, {{"x", PAWL_F32, 1, {3}}, x}};
    folder_tensors(&d, "t.safetensors", t, 2);
    snprintf(path, sizeof path, "%s/t.safetensors", d.path);
    check_ok(pawl__safetensors_open(path, &f, &err), &err);
    const pawl_tensor *q = pawl__safetensors_find(f, "one \"quoted\" \\ name");
    assert_non_null(q);
    assert_memory_equal(q->data, "abc", 3);
    assert_memory_equal(pawl__safetensors_find(f, "x")->data, x, sizeof x);
    assert_string_equal(pawl__safetensors_path(f), path);
    pawl__safetensors_close(&f);
    snprintf(path, sizeof path, "%s/none.safetensors", d.path);
    check_fails(pawl__safetensors_open(path, &f, &err), PAWL_EIO, &err, "none.safetensors: cannot open");
    check_fails(pawl__safetensors_open(d.path, &f, &err), PAWL_EFORMAT, &err, "not a regular file");
    folder_put(&d, "empty.safetensors", "", 0);
    snprintf(path, sizeof path, "%s/empty.safetensors", d.path);
    check_fails(pawl__safetensors_open(path, &f, &err), PAWL_EFORMAT, &err, "file of 0 bytes");
    /* a writer that gets too little or too much leaves nothing behind */
    pawl_writer *w;
    snprintf(path, sizeof path, "%s/w.safetensors", d.path);
    check_ok(pawl__writer_create(path, &t[1].decl, 1, &w, &err), &err);
    check_fails(pawl__writer_put(w, x, 13, &err), PAWL_EINTERNAL, &err, "13 bytes put after 0 of 12");
    check_ok(pawl__writer_put(w, x, 8, &err), &err);
    check_fails(pawl__writer_finish(&w, &err), PAWL_EINTERNAL, &err, "8 of 12 bytes put");
    assert_null(w);
    assert_int_not_equal(access(path, F_OK), 0);
    folder_remove(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts),
        cmocka_unit_test(reads_fields),
        cmocka_unit_test(refuses_lengths),
        cmocka_unit_test(refuses_places),
        cmocka_unit_test(refuses_names),
        cmocka_unit_test(refuses_text),
        cmocka_unit_test(refuses_truncation),
        cmocka_unit_test(many_tensors),
        cmocka_unit_test(files),
    };
    return cmocka_run_group_tests_name("store.safetensors", tests, NULL, NULL);
}
