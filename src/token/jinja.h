/* What the parts of the template interpreter share: tokens, syntax tree, values and the state of one rendering.
 *
 * Language and semantics follow Jinja2 3.1 (its documentation and its behaviour as seen from outside) and, below it,
 * Python 3's str, list and dict.
 *
 * Memory: a compiled template owns one arena with its source, tokens' text and tree, never written after compilation.
 * A rendering owns another arena for every value that it makes; both die as a whole. Values may point into either, and
 * into the caller's JSON tree, which lives longer than the rendering.
 *
 * Errors during a rendering are sticky: the first failure is recorded in jrun.status, every function then returns an
 * undefined value, and every loop ends at its next pawl__jinja_step. Callers therefore check run->status only where they
 * would otherwise do harm or much work. */
#ifndef PAWL_TOKEN_JINJA_H
#define PAWL_TOKEN_JINJA_H

#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/status.h"
#include "token/template.h"

enum {
    JINJA_MAX_SOURCE = 4 << 20,   /* bytes of a template */
    JINJA_MAX_HEIGHT = 1000,      /* of the syntax tree; also the most that limits.depth may be */
    JINJA_MAX_NEST = 200,         /* brackets, unary operators and blocks inside one another in the source */
    JINJA_MAX_VALUE_DEPTH = 2100, /* lists and dicts inside one another: a little over what the JSON reader lets in */
    JINJA_MAX_RANGE = 100000      /* items of range(), as Jinja2's sandbox has it */
};

/* ---- values ---- */

typedef enum jkind {
    J_ABSENT, /* an argument that was not passed; never visible to a template */
    J_UNDEF,  /* s, n: the missing name or a hint; flag: a jundef */
    J_NONE,
    J_BOOL,
    J_INT,
    J_FLOAT,
    J_STR, /* s, n bytes of valid UTF-8, not terminated; flag 1: marked safe (markupsafe's Markup) */
    J_LIST,
    J_TUPLE,
    J_DICT,
    J_VIEW, /* of a dict; flag: 'k', 'v' or 'i' */
    J_RANGE,
    J_NS, /* namespace(...): a dict of attributes */
    J_ITER,
    J_LOOP,
    J_MACRO,
    J_FUNC,
    J_METHOD,
    J_CYCLER,
    J_JOINER
} jkind;

/* What an undefined value says when it is used. */
typedef enum jundef { JU_NAME, JU_HINT, JU_ATTR /* JU_ATTR + jkind of the object */ } jundef;

typedef struct jlist jlist;
typedef struct jdict jdict;
typedef struct jiter jiter;
typedef struct jloop jloop;
typedef struct jmacro jmacro;
typedef struct jmethod jmethod;
typedef struct jcycler jcycler;
typedef struct jrange jrange;
typedef struct jfunc jfunc;
typedef struct jnode jnode;
typedef struct jframe jframe;
typedef struct jrun jrun;

typedef struct jval {
    uint8_t kind, flag;
    uint32_t n;
    union {
        int64_t i;
        double f;
        const char *s;
        jlist *list;
        jdict *dict;
        jrange *range;
        jiter *iter;
        jloop *loop;
        jmacro *macro;
        jmethod *method;
        jcycler *cycler;
        const jfunc *func;
        const void *p;
    } u;
} jval;

struct jlist {
    jval *v;
    uint32_t n, cap;
};

/* Keeps insertion order; hashed once it has more than a few keys. */
struct jdict {
    jval *keys, *vals;
    uint32_t n, cap;
    uint32_t *slots; /* key number + 1, or 0; NULL while small */
    uint32_t nslots; /* a power of two */
};

struct jrange {
    int64_t start, stop, step, count;
};

/* Arguments of a call. */
typedef struct jargs {
    jval *pos;
    jval *names, *vals; /* keyword arguments: names are strings */
    uint32_t npos, nkw;
} jargs;

/* One lazy pass over something, as Python's iterators and generators are: errors and side effects of map, select and of
 * a loop's condition come when an item is drawn, not before. */
struct jiter {
    enum { JI_SEQ, JI_STR, JI_DICT, JI_RANGE, JI_REVERSED, JI_MAP, JI_SELECT, JI_FILTER_LOOP, JI_UNIQUE } how;
    jval src; /* the sequence; or an iterator that feeds this one */
    uint64_t pos;
    jargs args;              /* map, select: what was passed to the filter */
    uint8_t by_attr, negate; /* select, reject, selectattr, rejectattr */
    jdict *seen;             /* unique */
    jval attribute, case_sensitive;
    const jnode *loop; /* JI_FILTER_LOOP: the for statement whose condition selects */
    jframe *scope;     /* JI_FILTER_LOOP: a scope for its target, inside the scope of the statement */
};

struct jloop {
    jiter *it;
    jval seq;                /* what is iterated over, for its length */
    jval before, now, after; /* J_ABSENT where there is none */
    jval changed;            /* the last arguments of loop.changed as a tuple, or J_ABSENT */
    int64_t index0, length;  /* length: -1 until asked for */
};

struct jmacro {
    const jnode *node;
    jframe *scope; /* where it was defined */
};

struct jmethod {
    jval self;
    const jfunc *func;
};

struct jcycler { /* also a joiner: items[0] separates, pos counts the calls */
    jlist *items;
    uint64_t pos;
};

/* A filter, method or global function. params: names separated by commas, bound to a[0], a[1], ... (J_ABSENT where not
 * passed); NULL: the function reads raw itself. A leading '/' means that they cannot be passed by name. */
struct jfunc {
    const char *name;
    const char *params;
    int required;
    jval (*call)(jrun *run, jval self, jval *a, const jargs *raw);
};

enum { JINJA_MAX_PARAMS = 6 };

/* ---- syntax tree ---- */

typedef enum jtype {
    /* expressions */
    N_CONST,   /* value */
    N_NAME,    /* value: interned name */
    N_TUPLE,   /* a: items */
    N_LIST,    /* a: items */
    N_DICT,    /* a: pairs */
    N_PAIR,    /* a: key, b: value */
    N_ATTR,    /* a.value */
    N_ITEM,    /* a[b] */
    N_SLICE,   /* only as b of N_ITEM: a, b, c may be NULL */
    N_CALL,    /* a: callee, b: arguments */
    N_FILTER,  /* a (NULL in a filter block) | value, b: arguments */
    N_TEST,    /* a is value, b: arguments */
    N_KWARG,   /* value = a, in argument lists */
    N_STARARG, /* op 1: *a, op 2: **a */
    N_UNARY,   /* op: one of OP_NOT, OP_NEG, OP_POS; a */
    N_BINARY,  /* op; a, b */
    N_AND,     /* a, b */
    N_OR,      /* a, b */
    N_CONCAT,  /* a: items */
    N_COMPARE, /* a: first operand, b: N_OPERAND list */
    N_OPERAND, /* op, a */
    N_COND,    /* a if b else c (c may be NULL) */
    N_NSREF,   /* target: value (namespace's name), a: N_CONST with the attribute */
    /* statements */
    N_DATA,        /* value */
    N_PRINT,       /* a */
    N_SET,         /* a: target, b: expression */
    N_SETBLOCK,    /* a: target, b: filter or NULL, c: body */
    N_IF,          /* a: condition (NULL: else), b: body, c: next branch */
    N_FOR,         /* a: target, b: iterable, c: condition or NULL, d: body, e: else */
    N_MACRO,       /* value: name, a: parameters, d: body; op: JM_ bits */
    N_PARAM,       /* value: name, a: default or NULL */
    N_CALLBLOCK,   /* a: the call, b: N_MACRO of the body */
    N_FILTERBLOCK, /* a: filter, d: body */
    N_WITH,        /* a: targets, b: values, d: body */
    N_SCOPE,       /* d: body */
    N_BREAK,
    N_CONTINUE
} jtype;

typedef enum jop {
    OP_NONE,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW,
    OP_NOT,
    OP_NEG,
    OP_POS,
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOTIN
} jop;

enum { JM_VARARGS = 1, JM_KWARGS = 2, JM_CALLER = 4 };

struct jnode {
    uint8_t type, op;
    uint16_t height;
    int line;
    jval value;
    jnode *a, *b, *c, *d, *e;
    jnode *next;         /* in a list */
    const char **masked; /* names that start out undefined in this node's scope, whatever lies outside: jinja_scope.c */
    uint32_t nmasked;
    uint32_t id; /* N_NAME, N_NSREF, N_MACRO, N_PARAM: number of the interned name */
};

typedef enum jtok {
    T_EOF,
    T_DATA,
    T_VAR_BEGIN,
    T_VAR_END,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_NAME,
    T_STRING,
    T_INT,
    T_FLOAT,
    T_ADD,
    T_SUB,
    T_MUL,
    T_DIV,
    T_FLOORDIV,
    T_MOD,
    T_POW,
    T_TILDE,
    T_LBRACKET,
    T_RBRACKET,
    T_LPAREN,
    T_RPAREN,
    T_LBRACE,
    T_RBRACE,
    T_EQ,
    T_NE,
    T_GT,
    T_GE,
    T_LT,
    T_LE,
    T_ASSIGN,
    T_DOT,
    T_COLON,
    T_PIPE,
    T_COMMA,
    T_SEMICOLON
} jtok;

typedef struct jtoken {
    jtok type;
    int line;
    jval value; /* data, name, string: J_STR; numbers */
} jtoken;

typedef struct jtokens {
    jtoken *v; /* freed by the caller; the last one is T_EOF */
    size_t n, cap;
} jtokens;

typedef struct jparsed {
    jnode *root;                                  /* N_SCOPE with the template's body */
    uint32_t nnames;                              /* interned names, numbered from 0 */
    const char *loop, *caller, *varargs, *kwargs; /* names that the interpreter itself sets */
} jparsed;

struct pawl_template {
    pawl_arena *arena;
    char *name;
    jparsed parsed;
};

/* src: n bytes of valid UTF-8 in the arena, whose line ends are already \n. On failure tokens->v may need freeing too. */
pawl_status pawl__jinja_lex(const char *src, size_t n, const char *name, pawl_arena *arena, jtokens *tokens,
                            pawl_err *err);
pawl_status pawl__jinja_parse(const jtokens *tokens, const char *name, pawl_arena *arena, jparsed *out, pawl_err *err);
/* Fills in the masked names of every scope. */
pawl_status pawl__jinja_scopes(jnode *root, uint32_t nnames, const char *name, pawl_arena *arena, pawl_err *err);
/* A word for a token in a message. */
const char *pawl__jinja_token_name(const jtoken *t, char out[40]);

/* ---- one rendering ---- */

typedef struct jvar {
    const char *name; /* interned: compared by address */
    jval value;
} jvar;

struct jframe {
    jframe *parent;
    jvar *vars;
    uint32_t n, cap;
};

struct jrun {
    const pawl_template *tmpl;
    pawl_arena *arena;
    char *chunk; /* small allocations are cut from it */
    size_t chunk_left;
    pawl_status status;
    pawl_err *err;
    int line;
    uint64_t steps, max_steps;
    unsigned depth, max_depth;
    size_t max_string;
    int64_t now;
    pawl_buf *out;
    jdict *vars; /* the caller's */
    jframe *frame;
};

/* Records the first failure with the template's name and the current line; returns an undefined value. */
jval pawl__jinja_fail(jrun *run, pawl_status s, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Counts n units of work; nonzero when the run has failed or the bound is reached. */
int pawl__jinja_step(jrun *run, uint64_t n);
/* Deeper and back again; enter is nonzero when the bound is reached (then do not leave). */
int pawl__jinja_enter(jrun *run);
void pawl__jinja_leave(jrun *run);
/* Zeroed, aligned to 16, from the rendering's arena; NULL after recording a failure. */
void *pawl__jinja_alloc(jrun *run, size_t count, size_t size);

/* ---- jinja_value.c ---- */
jval pawl__jv_none(void);
jval pawl__jv_bool(int b);
jval pawl__jv_int(int64_t i);
jval pawl__jv_float(double f);
jval pawl__jv_undef(const char *hint);
/* No copy: s must outlive the value. */
jval pawl__jv_view(const char *s, size_t n);
jval pawl__jv_copy(jrun *run, const char *s, size_t n);
/* The buffer's bytes as a string; frees the buffer. Fails where the buffer did. */
jval pawl__jv_take(jrun *run, pawl_buf *b);
pawl_buf pawl__jv_buf(const jrun *run);
jval pawl__jv_list(jrun *run, uint32_t cap);
jval pawl__jv_tuple(jrun *run, uint32_t n);
jval pawl__jv_pair(jrun *run, jval a, jval b);
void pawl__jv_push(jrun *run, jlist *list, jval v);
jdict *pawl__jv_dict_create(jrun *run);
jval pawl__jv_dict(jdict *d);
/* Inserts or replaces; fails on a key that Python could not hash. */
void pawl__jv_dict_set(jrun *run, jdict *d, jval key, jval v);
/* NULL when absent. An unhashable key is absent too. */
jval *pawl__jv_dict_find(const jdict *d, jval key);
jval *pawl__jv_dict_find_str(const jdict *d, const char *s, size_t n);
int pawl__jv_hashable(jval v);
jval pawl__jv_from_json(jrun *run, const json_t *j);

const char *pawl__jv_type(jval v); /* Python's name of the type */
int pawl__jv_truth(jrun *run, jval v);
int pawl__jv_is(jval v, const char *s); /* a string with these bytes */
int pawl__jv_equal(jrun *run, jval a, jval b);
int pawl__jv_same(jval a, jval b); /* Python's `is` */
/* a OP b for OP_LT, OP_LE, OP_GT, OP_GE; fails on types that have no order. */
int pawl__jv_order(jrun *run, jop op, jval a, jval b);
int pawl__jv_contains(jrun *run, jval container, jval v);
/* -1 after recording a failure: the value has no length. */
int64_t pawl__jv_length(jrun *run, jval v);
int pawl__jv_has_length(jval v);
int pawl__jv_iterable(jval v);
/* NULL after recording a failure: cannot be iterated. */
jiter *pawl__jv_iter(jrun *run, jval v);
jval pawl__jv_iter_value(jiter *it);
/* 1 and *out; 0 at the end or after a failure. */
int pawl__jv_next(jrun *run, jiter *it, jval *out);
/* Draws everything. */
jval pawl__jv_to_list(jrun *run, jval v);
/* Fails as using an undefined value does; always returns an undefined value. */
jval pawl__jv_use_undef(jrun *run, jval v);

/* ---- jinja_print.c ---- */
void pawl__jv_str(jrun *run, jval v, pawl_buf *out);
void pawl__jv_repr(jrun *run, jval v, pawl_buf *out);
/* A value as a string value; strings as they are (marked ones too). */
jval pawl__jv_to_str(jrun *run, jval v);
void pawl__jv_float_repr(double f, char out[40]);
typedef struct jjson {
    jval indent; /* none, an integer or a string */
    const char *item_sep, *key_sep;
    size_t item_n, key_n;
    int ascii, sort;
} jjson;
void pawl__jv_json(jrun *run, jval v, const jjson *how, pawl_buf *out);
void pawl__jv_escape(const char *s, size_t n, pawl_buf *out);
/* Python's float(): nonzero when s is not a number. */
int pawl__jv_parse_float(const char *s, size_t n, double *out);

/* ---- jinja_ops.c ---- */
jval pawl__jinja_binary(jrun *run, jop op, jval a, jval b);
jval pawl__jinja_unary(jrun *run, jop op, jval a);
int pawl__jinja_compare(jrun *run, jop op, jval a, jval b);
jval pawl__jinja_attr(jrun *run, jval obj, jval name); /* obj.name */
jval pawl__jinja_item(jrun *run, jval obj, jval key);  /* obj[key] */
jval pawl__jinja_slice(jrun *run, jval obj, jval start, jval stop, jval step);
/* An attribute proper, never an item; J_ABSENT where there is none. */
jval pawl__jinja_own_attr(jrun *run, jval obj, jval name);
/* Follows "a.b.0", or takes an integer as an index, or nothing for none. instead: taken where a step gives an undefined
 * value, unless it is none or absent. */
jval pawl__jinja_path(jrun *run, jval obj, jval path, jval instead);

/* ---- jinja_text.c, jinja_method.c ---- */
int pawl__jinja_is_space(uint32_t cp); /* Python's str.isspace for one character */
uint32_t pawl__jinja_chars(const char *s, size_t n);
/* Byte offset of character number i (or n). */
size_t pawl__jinja_offset(const char *s, size_t n, uint32_t i);
jval pawl__jinja_strip(jrun *run, jval s, jval chars, int left, int right);
jval pawl__jinja_replace(jrun *run, jval s, jval old, jval by, int64_t count);
jval pawl__jinja_upper(jrun *run, jval s);
jval pawl__jinja_lower(jrun *run, jval s);
jval pawl__jinja_capitalize(jrun *run, jval s);
jval pawl__jinja_title(jrun *run, jval s); /* str.title, not the filter */
jval pawl__jinja_swapcase(jrun *run, jval s);
jval pawl__jinja_center(jrun *run, jval s, int64_t width, uint32_t fill, int left, int right);
jval pawl__jinja_splitlines(jrun *run, jval s, int keep);
jval pawl__jinja_format(jrun *run, jval fmt, jval args); /* fmt % args */
enum { J_LOWER = 1, J_UPPER, J_DIGIT, J_ALPHA, J_ALNUM, J_SPACE, J_DECIMAL, J_TITLE };
/* Python's str.islower and its kin. */
int pawl__jinja_isclass(jrun *run, jval s, int what);
uint32_t pawl__jinja_toupper(uint32_t cp);
uint32_t pawl__jinja_tolower(uint32_t cp);

/* A method of a built-in type, or NULL. refused: set to the reason where Python has it and pawl does not, or where the
 * sandbox hides it. */
const jfunc *pawl__jinja_method(jval obj, jval name, const char **refused);

/* ---- jinja_filter.c, jinja_seq.c, jinja_test.c ---- */
const jfunc *pawl__jinja_find_filter(jval name);
const jfunc *pawl__jinja_find_seq_filter(jval name);
jval pawl__jinja_filter(jrun *run, jval name, jval v, const jargs *args);
int pawl__jinja_test(jrun *run, jval name, jval v, const jargs *args);
/* The order that sorts keys, stable, as a permutation; NULL after recording a failure. */
uint32_t *pawl__jinja_sort(jrun *run, const jval *keys, uint32_t n, int reverse);
/* The next item of a map, select or unique iterator. */
int pawl__jinja_next_lazy(jrun *run, jiter *it, jval *out);

/* ---- jinja_call.c ---- */
const jfunc *pawl__jinja_global(const char *name, size_t n);
/* Binds raw to f's parameters and calls it. what: "filter", "method", ... for messages. */
jval pawl__jinja_invoke(jrun *run, const jfunc *f, jval self, const jargs *raw);
jval pawl__jinja_call(jrun *run, jval callee, const jargs *args);
jval pawl__jinja_loop_attr(jrun *run, jloop *l, jval name);
int pawl__jinja_loop_next(jrun *run, jloop *l);

/* ---- jinja_eval.c ---- */
void pawl__jinja_run(jrun *run, const jnode *root);
jval pawl__jinja_call_macro(jrun *run, jmacro *m, const jargs *args);
int pawl__jinja_next_filtered(jrun *run, jiter *it, jval *out);

#endif
