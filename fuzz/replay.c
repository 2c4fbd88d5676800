/* Runs a fuzz target over every file of a folder, so that the corpus is part of the ordinary tests. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return 0;
    uint8_t *data = NULL;
    size_t n = 0, cap = 0;
    for (;;) {
        if (n == cap) {
            cap = cap ? cap * 2 : 4096;
            uint8_t *more = realloc(data, cap);
            if (!more) abort();
            data = more;
        }
        size_t k = fread(data + n, 1, cap - n, f);
        if (k == 0) break;
        n += k;
    }
    fclose(f);
    /* An exact-size copy, so that the address sanitizer sees a read past the end. */
    uint8_t *exact = malloc(n ? n : 1);
    if (!exact) abort();
    for (size_t i = 0; i < n; i++) exact[i] = data[i];
    free(data);
    LLVMFuzzerTestOneInput(exact, n);
    free(exact);
    return 1;
}

int main(int argc, char **argv)
{
    int n = 0;
    for (int a = 1; a < argc; a++) {
        DIR *dir = opendir(argv[a]);
        if (!dir) {
            fprintf(stderr, "replay: cannot open corpus folder %s\n", argv[a]);
            return 1;
        }
        for (struct dirent *e; (e = readdir(dir));) {
            if (e->d_name[0] == '.') continue;
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[a], e->d_name);
            n += run_file(path);
        }
        closedir(dir);
    }
    printf("replayed %d inputs\n", n);
    return n > 0 ? 0 : 1;
}
