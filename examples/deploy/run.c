/* The saved model from C.
 *
 *     make libweft
 *     W="-Ibuild/libweft/include -Lbuild/libweft/lib -lweft -Wl,-rpath,$PWD/build/libweft/lib"
 *     cc -std=c99 examples/deploy/run.c -o run $W
 *     ./run model.weft 0.5 -1 2 1.5
 *
 * The program's `forward` takes numbers, float32 [n], and returns a tuple: float32 [1], and an int. */
#include <stdio.h>
#include <stdlib.h>

#include <weft.h>

static int failed(weft_error* error) {
    fprintf(stderr, "%s%s: %s\n", error->trace, error->kind, error->message);
    weft_error_clear(error);
    return 1;
}

/* Whether it is a tuple of a tensor with one float32 and an int; prints them. */
static int print_result(const weft_value* result) {
    const weft_value* items = result->as.list.items;
    const DLTensor* t;
    if (result->kind != WEFT_TUPLE || result->as.list.size != 2) return 0;
    if (items[0].kind != WEFT_TENSOR || items[1].kind != WEFT_INT) return 0;
    t = items[0].as.tensor.data;
    if (t->ndim != 1 || t->shape[0] != 1 || t->dtype.code != kDLFloat || t->dtype.bits != 32)
        return 0;
    printf("%.4f %lld\n", *(const float*)((const char*)t->data + t->byte_offset),
           (long long)items[1].as.integer);
    return 1;
}

int main(int argc, char** argv) {
    weft_program* program = NULL;
    weft_context* context = NULL;
    weft_error error = {0};
    weft_value argument, result;
    DLTensor row;
    int64_t n;
    float* numbers;
    int k, status = 1;

    if (argc < 3) {
        fprintf(stderr, "usage: %s FILE NUMBER...\n", argv[0]);
        return 2;
    }
    if (weft_load(argv[1], &program, &error)) return failed(&error);
    if (weft_context_new(program, &context, &error)) {
        weft_program_free(program);
        return failed(&error);
    }
    weft_program_free(program); /* the context keeps what it needs */

    n = argc - 2;
    numbers = malloc((size_t)n * sizeof *numbers);
    if (!numbers) return 1;
    for (k = 2; k < argc; ++k) numbers[k - 2] = (float)atof(argv[k]);
    row = weft_dense(numbers, weft_float32(), 1, &n);
    argument = weft_tensor(&row);

    if (weft_run(context, "forward", &argument, 1, NULL, &result, &error)) {
        failed(&error);
    } else {
        if (print_result(&result)) status = 0;
        else fprintf(stderr, "expected another result of this program\n");
        weft_value_clear(&result);
    }
    free(numbers);
    weft_context_free(context);
    return status;
}
