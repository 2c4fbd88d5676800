#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Maps in use, for pawl__map_owner. A slot is taken by storing its path last and freed by clearing it first, so that a
 * signal handler sees either nothing or a whole entry. When all slots are taken a further map simply has no name. */
enum { MAX_MAPS = 1024 };
static struct {
    _Atomic(const char *) path;
    const unsigned char *data;
    size_t size;
} maps[MAX_MAPS];
static atomic_flag maps_lock = ATOMIC_FLAG_INIT;

static pawl_status open_regular(const char *path, int *fd, size_t *size, pawl_err *err)
{
    /* O_NONBLOCK: a FIFO without a writer would hold open() for ever; regular files do not know it */
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0) return pawl__fail(err, PAWL_EIO, "%s: cannot open: %s", path, strerror(errno));
    struct stat st;
    if (fstat(*fd, &st) < 0) {
        int e = errno;
        close(*fd);
        return pawl__fail(err, PAWL_EIO, "%s: cannot stat: %s", path, strerror(e));
    }
    if (!S_ISREG(st.st_mode)) {
        close(*fd);
        return pawl__fail(err, PAWL_EFORMAT, "%s: not a regular file", path);
    }
    *size = (size_t)st.st_size;
    return PAWL_OK;
}

pawl_status pawl__file_read(const char *path, size_t max, char **data, size_t *n, pawl_err *err)
{
    int fd;
    size_t size;
    PAWL_TRY(open_regular(path, &fd, &size, err));
    if (size > max) {
        close(fd);
        return pawl__fail(err, PAWL_EFORMAT, "%s: file of %zu bytes, expected at most %zu", path, size, max);
    }
    char *p = malloc(size + 1);
    if (!p) {
        close(fd);
        return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory for %zu bytes", path, size);
    }
    size_t got = 0;
    while (got < size) {
        ssize_t k = read(fd, p + got, size - got);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) {
            int e = errno;
            free(p);
            close(fd);
            return pawl__fail(err, PAWL_EIO, "%s: cannot read: %s", path, strerror(e));
        }
        if (k == 0) break; /* shrank meanwhile: the parser will say what is missing */
        got += (size_t)k;
    }
    close(fd);
    p[got] = 0;
    *data = p;
    *n = got;
    return PAWL_OK;
}

pawl_status pawl__map_open(const char *path, pawl_map *out, pawl_err *err)
{
    int fd;
    size_t size;
    memset(out, 0, sizeof *out);
    PAWL_TRY(open_regular(path, &fd, &size, err));
    void *p = NULL;
    if (size > 0) {
        p = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            int e = errno;
            close(fd);
            return pawl__fail(err, PAWL_EIO, "%s: cannot map %zu bytes: %s", path, size, strerror(e));
        }
    }
    close(fd);
    char *name = strdup(path);
    if (!name) {
        if (p) munmap(p, size);
        return pawl__fail(err, PAWL_ENOMEM, "%s: out of memory", path);
    }
    out->data = p;
    out->size = size;
    out->path = name;
    while (atomic_flag_test_and_set(&maps_lock)) {}
    for (int i = 0; p && i < MAX_MAPS; i++)
        if (!maps[i].path) {
            maps[i].data = p;
            maps[i].size = size;
            atomic_store(&maps[i].path, name);
            break;
        }
    atomic_flag_clear(&maps_lock);
    return PAWL_OK;
}

void pawl__map_close(pawl_map *m)
{
    if (!m->path) return;
    while (atomic_flag_test_and_set(&maps_lock)) {}
    for (int i = 0; i < MAX_MAPS; i++)
        if (maps[i].path == m->path) atomic_store(&maps[i].path, NULL);
    atomic_flag_clear(&maps_lock);
    if (m->data) munmap((void *)(size_t)m->data, m->size);
    free((void *)(size_t)m->path);
    memset(m, 0, sizeof *m);
}

const char *pawl__map_owner(const void *address)
{
    const unsigned char *a = address;
    for (int i = 0; i < MAX_MAPS; i++) {
        const char *path = atomic_load(&maps[i].path);
        if (path && a >= maps[i].data && a < maps[i].data + maps[i].size) return path;
    }
    return NULL;
}

pawl_status pawl__path_join(char *out, size_t cap, const char *dir, const char *name, pawl_err *err)
{
    int n = snprintf(out, cap, "%s/%s", dir, name);
    if (n < 0 || (size_t)n >= cap) return pawl__fail(err, PAWL_EINVAL, "%s/%s: path too long", dir, name);
    return PAWL_OK;
}

int pawl__file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}
