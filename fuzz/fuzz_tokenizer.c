/* libs: pawl_token
 * Input: tokenizer.json, NUL, tokenizer_config.json (may be empty), NUL, a text. Whatever loads must give each text
 * back (in NFC if the tokenizer asks for it), whole and token by token, and find each of its tokens by content. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "token/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) abort();
}

static void round_trip(const pawl_tokenizer *t, const char *text, size_t n)
{
    pawl_ids ids = {0};
    pawl_buf whole = {0}, stream = {0};
    char *nfc = NULL;
    size_t n_nfc = n;
    if (t->nfc && pawl__utf8_valid(text, n) == n) require(pawl__nfc(text, n, &nfc, &n_nfc, NULL) == PAWL_OK);
    if (!nfc) n_nfc = n;
    if (pawl__tokenizer_encode(t, text, n, 0, &ids, NULL) == PAWL_OK) {
        pawl_detok d = {0};
        for (size_t i = 0; i < ids.len; i++) {
            require(ids.data[i] >= 0 && ids.data[i] < pawl__tokenizer_size(t));
            pawl__detok_push(&d, t, ids.data[i], 0, &stream);
        }
        pawl__detok_finish(&d, &stream);
        require(pawl__tokenizer_decode(t, ids.data, ids.len, 0, &whole, NULL) == PAWL_OK);
        require(whole.len == n_nfc && (n_nfc == 0 || memcmp(whole.data, nfc ? nfc : text, n_nfc) == 0));
        require(stream.len == n_nfc && (n_nfc == 0 || memcmp(stream.data, whole.data, n_nfc) == 0));
    }
    free(nfc);
    pawl__buf_free(&whole);
    pawl__buf_free(&stream);
    pawl__ids_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *json = (const char *)data, *end = json + size;
    const char *config = size ? memchr(json, 0, size) : NULL;
    size_t n_json = config ? (size_t)(config - json) : size;
    const char *text = config ? memchr(config + 1, 0, (size_t)(end - config - 1)) : NULL;
    size_t n_config = config ? (size_t)((text ? text : end) - config - 1) : 0;
    pawl_tokenizer *t;
    pawl_err err;
    if (pawl__tokenizer_load(json, n_json, n_config ? config + 1 : NULL, n_config, &t, &err) != PAWL_OK) {
        require(!t && err.text[0]);
        return 0;
    }
    json_t *tree; /* the reader of vocabulary and merges must be as strict as the tree parser */
    require(pawl__json_parse(json, n_json, "whole", &tree, &err) == PAWL_OK);
    json_decref(tree);
    size_t n_text = text ? (size_t)(end - text - 1) : 0;
    if (n_text > 4096) n_text = 4096;
    if (text) {
        round_trip(t, text + 1, n_text);
        pawl_ids ids = {0};
        (void)pawl__tokenizer_encode(t, text + 1, n_text, PAWL_ENCODE_SPECIAL | PAWL_ENCODE_BOS, &ids, NULL);
        pawl__ids_free(&ids);
        for (int32_t id = -1; id <= pawl__tokenizer_size(t); id += 97) {
            size_t n;
            const char *bytes = pawl__tokenizer_bytes(t, id, &n);
            if (bytes && n && !memchr(bytes, 0, n)) require(pawl__tokenizer_find(t, bytes) >= 0);
        }
    }
    pawl__tokenizer_close(&t);
    require(!t);
    return 0;
}
