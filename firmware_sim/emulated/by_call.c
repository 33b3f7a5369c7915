/* QEMU plugin that counts guest instructions for each call of some functions, the callers, to others.
 *
 * callers=FILE has a line "LOW HIGH" of hexadecimal addresses for each caller. A block of instructions of a caller, and
 * all that runs from there to the next such block, count to the last instruction of the block: the call, if it is one.
 * When one of the addresses mark=ADDRESS is reached, and at exit, what was counted since then is appended to
 * out=FILE: the line "from ADDRESS", the mark before, and lines "ADDRESS RUNS INSTRUCTIONS". One processor only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qemu_plugin.h"

enum { CALLERS = 4096, MARKS = 16, BUCKETS = 4096 };

typedef struct site {
    uint64_t at, runs, instructions;
    struct site *next;
} site;

/* A block of a caller. */
typedef struct {
    site *site;
    uint64_t first, size;
} block;

EXPORT int qemu_plugin_version = 1;
static uint64_t low[CALLERS], high[CALLERS], mark[MARKS], since, others;
static size_t callers, marks;
static site *buckets[BUCKETS], before, *current = &before;
static const char *path;

static site *site_at(uint64_t at)
{
    site **place = &buckets[(at >> 1) % BUCKETS];

    while (*place && (*place)->at != at)
        place = &(*place)->next;
    if (!*place) {
        *place = calloc(1, sizeof **place);
        if (!*place)
            abort();
        (*place)->at = at;
    }
    return *place;
}

/* What ran outside of the callers belongs to the site that ran before. */
static void settle(void)
{
    current->instructions += others;
    others = 0;
}

static void write_down(void)
{
    FILE *file = fopen(path, "a");

    if (!file)
        abort();
    settle();
    fprintf(file, "from %llx\n", (unsigned long long)since);
    before.runs = before.instructions = 0;
    for (size_t i = 0; i < BUCKETS; i++)
        for (site *s = buckets[i]; s; s = s->next) {
            if (s->instructions)
                fprintf(file, "%llx %llu %llu\n", (unsigned long long)s->at, (unsigned long long)s->runs,
                        (unsigned long long)s->instructions);
            s->runs = s->instructions = 0;
        }
    if (fclose(file))
        abort();
}

static void entered(unsigned cpu, void *data)
{
    const block *b = data;

    (void)cpu;
    settle();
    for (size_t i = 0; i < marks; i++)
        if (b->first == mark[i]) {
            write_down();
            since = b->first;
        }
    current = b->site;
    current->runs++;
    current->instructions += b->size;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t size = qemu_plugin_tb_n_insns(tb);
    uint64_t first = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));
    block *b;

    (void)id;
    for (size_t i = 0; i < callers; i++) {
        if (first < low[i] || first >= high[i])
            continue;
        b = malloc(sizeof *b); /* QEMU may keep it until the end */
        if (!b)
            abort();
        b->site = site_at(qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, size - 1)));
        b->first = first;
        b->size = size;
        qemu_plugin_register_vcpu_tb_exec_cb(tb, entered, NO_REGISTERS, b);
        return;
    }
    qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD_U64, &others, size);
}

static void finished(qemu_plugin_id_t id, void *data)
{
    (void)id, (void)data;
    write_down();
}

static int read_callers(const char *name)
{
    FILE *file = fopen(name, "r");
    unsigned long long from, to;

    if (!file)
        return 1;
    for (; callers < CALLERS && fscanf(file, "%llx %llx", &from, &to) == 2; callers++) {
        low[callers] = from;
        high[callers] = to;
    }
    return fclose(file) || callers == CALLERS;
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv)
{
    (void)info;
    for (int i = 0; i < argc; i++) {
        if (!strncmp(argv[i], "out=", 4))
            path = strdup(argv[i] + 4);
        else if (!strncmp(argv[i], "callers=", 8) && read_callers(argv[i] + 8))
            return 1;
        else if (!strncmp(argv[i], "mark=", 5) && marks < MARKS)
            mark[marks++] = strtoull(argv[i] + 5, NULL, 0);
    }
    if (!path || !callers)
        return 1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finished, NULL);
    return 0;
}
