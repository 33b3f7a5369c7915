/* QEMU plugin that counts guest instructions and writes the number to the file named by out=FILE at exit.
 * Whenever the guest asks for its process number, FILE.marks gets a line with the number so far.
 * Threads of the guest share one counter without a lock: run one thread. */
#include <stdio.h>
#include <string.h>

#include "qemu_plugin.h"

enum { GETPID = 172 }; /* the number of this system call on 64-bit ARM */

EXPORT int qemu_plugin_version = 1;
static uint64_t count;
static char path[4096], marks[4104];

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(block, ADD_U64, &count, qemu_plugin_tb_n_insns(block));
}

static void called(qemu_plugin_id_t id, unsigned cpu, int64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                   uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
    (void)id, (void)cpu, (void)a, (void)b, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
    FILE *file = number == GETPID ? fopen(marks, "a") : NULL;
    if (file) {
        fprintf(file, "%llu\n", (unsigned long long)count);
        fclose(file);
    }
}

static void finished(qemu_plugin_id_t id, void *data) {
    (void)id, (void)data;
    FILE *file = fopen(path, "w");
    if (file) {
        fprintf(file, "%llu\n", (unsigned long long)count);
        fclose(file);
    }
}

EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const void *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++)
        if (!strncmp(argv[i], "out=", 4)) snprintf(path, sizeof path, "%s", argv[i] + 4);
    if (!*path) return 1;
    snprintf(marks, sizeof marks, "%s.marks", path);
    qemu_plugin_register_vcpu_syscall_cb(id, called);
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, finished, NULL);
    return 0;
}
