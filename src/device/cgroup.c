/* Reads control-group limits. A limit may sit on any ancestor of the process's group, so every level up to the mount
 * point is read and the tightest wins. Inside a container the path in the membership file may not exist below the mount
 * point; the levels that do exist still count. Files: cpu.max, memory.max (version 2, kernel's cgroup-v2.rst);
 * cpu.cfs_quota_us, cpu.cfs_period_us (sched-bwc.rst), memory.limit_in_bytes (version 1). */
#include "device/cgroup.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first line of dir/name without its newline; 0 when there is none. */
static int read_line(const char *dir, const char *name, char *out, size_t cap)
{
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", dir, name);
    if (n < 0 || (size_t)n >= sizeof path) return 0;
    FILE *f = fopen(path, "re");
    if (!f) return 0;
    int ok = fgets(out, (int)cap, f) != NULL;
    fclose(f);
    if (ok) out[strcspn(out, "\n")] = 0;
    return ok;
}

/* A positive decimal number; "max", -1 and anything else are 0. */
static unsigned long long positive(const char *s, const char **end)
{
    char *e;
    if (*s < '0' || *s > '9') {
        *end = s;
        return 0;
    }
    errno = 0;
    unsigned long long v = strtoull(s, &e, 10);
    *end = e;
    return errno ? 0 : v;
}

static void tighten_cpus(pawl_cgroup *g, unsigned long long quota, unsigned long long period)
{
    if (!quota || !period) return;
    unsigned long long n = quota / period;
    int cpus = n < 1 ? 1 : n > INT_MAX ? INT_MAX : (int)n;
    if (!g->cpus || cpus < g->cpus) g->cpus = cpus;
}

static void tighten_mem(pawl_cgroup *g, unsigned long long bytes)
{
    if (!bytes || bytes > SIZE_MAX) return;
    if (!g->mem || bytes < g->mem) g->mem = (size_t)bytes;
}

static void read_level(pawl_cgroup *g, const char *dir)
{
    char line[128], other[128];
    const char *rest;
    if (read_line(dir, "cpu.max", line, sizeof line)) {
        unsigned long long quota = positive(line, &rest);
        while (*rest == ' ') rest++;
        tighten_cpus(g, quota, positive(rest, &rest));
    }
    if (read_line(dir, "memory.max", line, sizeof line)) tighten_mem(g, positive(line, &rest));
    if (read_line(dir, "cpu.cfs_quota_us", line, sizeof line) &&
        read_line(dir, "cpu.cfs_period_us", other, sizeof other)) {
        tighten_cpus(g, positive(line, &rest), positive(other, &rest));
    }
    if (read_line(dir, "memory.limit_in_bytes", line, sizeof line)) tighten_mem(g, positive(line, &rest));
}

/* mount + path, then each ancestor, then the mount itself. */
static void read_hierarchy(pawl_cgroup *g, const char *mount, const char *path)
{
    char dir[PATH_MAX];
    int n = snprintf(dir, sizeof dir, "%s%s", mount, path);
    if (n < 0 || (size_t)n >= sizeof dir) return;
    size_t base = strlen(mount);
    for (;;) {
        read_level(g, dir);
        char *slash = strrchr(dir, '/');
        if (!slash || (size_t)(slash - dir) < base || strlen(dir) == base) return;
        *slash = 0;
    }
}

static int names_controller(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',') {
        if (strcspn(p, ",") == n && memcmp(p, word, n) == 0) return 1;
    }
    return 0;
}

/* A line is "hierarchy:controllers:path"; version 2 has hierarchy 0 and no controllers. */
static void read_entry(pawl_cgroup *g, char *line, const char *root)
{
    line[strcspn(line, "\n")] = 0;
    char *controllers = strchr(line, ':');
    if (!controllers) return;
    *controllers++ = 0;
    char *path = strchr(controllers, ':');
    if (!path) return;
    *path++ = 0;
    char mount[PATH_MAX];
    if (!*controllers) {
        read_hierarchy(g, root, path);
        if (snprintf(mount, sizeof mount, "%s/unified", root) < (int)sizeof mount) read_hierarchy(g, mount, path);
        return;
    }
    if (!names_controller(controllers, "cpu") && !names_controller(controllers, "memory")) return;
    if (snprintf(mount, sizeof mount, "%s/%s", root, controllers) < (int)sizeof mount) read_hierarchy(g, mount, path);
}

pawl_cgroup pawl__cgroup_read(const char *membership, const char *root)
{
    pawl_cgroup g = {0, 0};
    FILE *f = fopen(membership, "re");
    if (!f) return g;
    char line[PATH_MAX];
    while (fgets(line, sizeof line, f)) read_entry(&g, line, root);
    fclose(f);
    return g;
}
