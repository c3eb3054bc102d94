/* What calls of libweft cost: one row of numbers through the `forward` of each file.
 *
 *     weft_run COLUMNS FILE...
 *
 * Each takes a float32 [COLUMNS] and gives a tensor. Prints the nanoseconds of one weft_run, its result freed too, for
 * each: the least of many rounds, the files turn and turn about. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "c/weft.h"

enum { kFiles = 16, kRounds = 200, kCalls = 500 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static int failed(const weft_error* error) {
    fprintf(stderr, "%s%s: %s\n", error->trace, error->kind, error->message);
    return 1;
}

static weft_context* context_of(const char* path, weft_error* error) {
    weft_program* program = NULL;
    weft_context* context = NULL;
    if (!weft_load(path, &program, error)) weft_context_new(program, &context, error);
    weft_program_free(program); /* the context keeps what it needs */
    return context;
}

int main(int argc, char** argv) {
    const int files = argc - 2;
    weft_context* contexts[kFiles];
    double least[kFiles];
    weft_error error = {0};
    weft_value argument, result;
    DLTensor row;
    float* numbers;
    int64_t columns;
    int round, k, n;

    if (files < 1 || files > kFiles || (columns = atoll(argv[1])) < 1) return 2;
    weft_set_threads(1);
    numbers = malloc((size_t)columns * sizeof *numbers);
    if (!numbers) return 1;
    for (n = 0; n < columns; ++n) numbers[n] = (float)(n % 7) / 7;
    row = weft_dense(numbers, weft_float32(), 1, &columns);
    argument = weft_tensor(&row);
    for (k = 0; k < files; ++k)
        if (!(contexts[k] = context_of(argv[k + 2], &error))) return failed(&error);
    for (round = 0; round < kRounds; ++round)
        for (k = 0; k < files; ++k) {
            const double start = now();
            double each;
            for (n = 0; n < kCalls; ++n) {
                if (weft_run(contexts[k], NULL, &argument, 1, NULL, &result, &error))
                    return failed(&error);
                weft_value_clear(&result);
            }
            each = (now() - start) / kCalls;
            if (!round || each < least[k]) least[k] = each;
        }
    for (k = 0; k < files; ++k) printf("%.1f\n", least[k]);
    for (k = 0; k < files; ++k) weft_context_free(contexts[k]);
    free(numbers);
    return 0;
}
