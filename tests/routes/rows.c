/* Reader of routing rows. */
#include "rows.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/list/list.h"

static char *trim(char *s)
{
    while (*s == ' ') s++;
    size_t n = strlen(s);
    while (n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\n')) s[--n] = 0;
    return s;
}

static pawl_status parse_policy(char *text, pawl_policy *p, pawl_err *err)
{
    *p = pawl__policy_default();
    for (char *save, *w = strtok_r(text, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
        w = trim(w);
        if (strncmp(w, "ban ", 4) == 0) {
            PAWL_TRY(pawl__policy_ban(p, w + 4, &pawl__kernel_table, err));
        } else if (strncmp(w, "force ", 6) == 0) {
            PAWL_TRY(pawl__policy_force(p, w + 6, &pawl__kernel_table, err));
        } else if (strncmp(w, "isa ", 4) == 0) {
            PAWL_TRY(pawl__isa_level(w + 4, &p->isa_mask, err));
        } else if (strcmp(w, "deterministic") == 0) {
            p->deterministic = 1;
        } else if (strcmp(w, "soft") == 0) {
            p->soft_forces = 1;
        } else if (*w) {
            return pawl__fail(err, PAWL_EINVAL, "unknown policy word \"%s\"", w);
        }
    }
    return PAWL_OK;
}

static pawl_status parse_row(char *line, row *r, pawl_err *err)
{
    char *part[5] = {0}, none[1] = "";
    int n = 0;
    for (char *s = line; n < 5; n++) {
        part[n] = s;
        char *semi = strchr(s, ';');
        if (!semi) {
            n++;
            break;
        }
        *semi = 0;
        s = semi + 1;
    }
    if (n < 3) return pawl__fail(err, PAWL_EINVAL, "needs caps ; query ; expected");
    for (int i = 0; i < 5; i++) part[i] = part[i] ? trim(part[i]) : none;
    PAWL_TRY(pawl__caps_parse(part[0], strlen(part[0]), &r->caps, err));
    PAWL_TRY(pawl__query_parse(part[1], strlen(part[1]), &r->query, err));
    snprintf(r->expected, sizeof r->expected, "%s", part[2]);
    snprintf(r->refusals, sizeof r->refusals, "%s", part[3]);
    return parse_policy(part[4], &r->policy, err);
}

static int read_file(const char *dir, const char *name, row *out, int n)
{
    char path[512], line[1024];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "r");
    if (!f) {
        printf("cannot open %s\n", path);
        return -1;
    }
    for (int number = 1; n >= 0 && fgets(line, sizeof line, f); number++) {
        if (*trim(line) == 0 || *line == '#') continue;
        if (n == MAX_ROWS) {
            printf("more than %d rows\n", MAX_ROWS);
            n = -1;
            break;
        }
        row *r = &out[n++];
        memset(r, 0, sizeof *r);
        snprintf(r->where, sizeof r->where, "%.40s:%d", name, number);
        snprintf(r->line, sizeof r->line, "%s", line);
        pawl_err err;
        if (parse_row(line, r, &err) == PAWL_OK) continue;
        printf("%s: %s\n", r->where, err.text);
        n = -1;
    }
    fclose(f);
    return n;
}

int rows_read(const char *dir, row *out)
{
    DIR *d = opendir(dir);
    if (!d) {
        printf("cannot open %s\n", dir);
        return -1;
    }
    int n = 0;
    for (struct dirent *e; n >= 0 && (e = readdir(d));) {
        size_t len = strlen(e->d_name);
        if (len > 4 && strcmp(e->d_name + len - 4, ".txt") == 0 && strcmp(e->d_name, "CMakeLists.txt") != 0) {
            n = read_file(dir, e->d_name, out, n);
        }
    }
    closedir(d);
    return n;
}

void rows_print_spans(const pawl_decision *d, char *out, size_t cap)
{
    if (d->n_spans == 1) {
        snprintf(out, cap, "%s", d->spans[0].kernel->id);
        return;
    }
    size_t n = 0;
    out[0] = 0;
    for (int i = 0; i < d->n_spans && n < cap; i++) {
        const pawl_span *s = &d->spans[i];
        char to[24] = "";
        if (s->m_max) snprintf(to, sizeof to, "%lld", (long long)s->m_max);
        n += (size_t)snprintf(out + n, cap - n, "%s%lld-%s=%s", i ? "," : "", (long long)s->m_min, to, s->kernel->id);
    }
}
