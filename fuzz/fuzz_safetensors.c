/* libs: pawl_store
 * A safetensors file from a stranger, or, when the bytes begin with '{', a shard index. Whatever is accepted is read in
 * full: every tensor's bytes lie inside the file and cover it once. */
#include <stdlib.h>
#include <string.h>

#include "store/index.h"
#include "store/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_index(const uint8_t *data, size_t size)
{
    pawl_index x;
    if (pawl__index_parse((const char *)data, size, "index", &x, NULL) == PAWL_OK)
        for (size_t i = 0; i < x.count; i++)
            if (pawl__names_find(&x.names, x.entry[i].name, x.entry[i].len) != i || x.entry[i].file >= x.files) abort();
    pawl__index_free(&x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size && data[0] == '{') {
        read_index(data, size);
        return 0;
    }
    pawl_safetensors *f;
    pawl_err err;
    if (pawl__safetensors_parse(data, size, "file", &f, &err) != PAWL_OK) return 0;
    size_t covered = 0;
    for (size_t i = 0; i < pawl__safetensors_count(f); i++) {
        char text[PAWL_TENSOR_TEXT];
        const pawl_tensor *t = pawl__safetensors_at(f, i);
        if (t->data < data || t->bytes > size || t->data + t->bytes > data + size) abort();
        if (pawl__safetensors_find(f, t->name) != t || strlen(t->name) != t->name_len) abort();
        if (pawl__tensor_count(t) < 0 || !*pawl__tensor_text(t, text)) abort();
        covered += t->bytes;
    }
    if (covered > size) abort();
    pawl__safetensors_close(&f);
    return 0;
}
