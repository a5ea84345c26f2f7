/* One EM round of a categorical HMM, as plain C: the limit that benchmarks/chain.py compares with.

   Scaled forward-backward, four rows of a matrix at a time; expected counts go straight into the tables of the M-step,
   and no posterior is kept. The number of labels is known at run time only, as it is for Trellis. */

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef long long i64;

/* out = x . m, m (k, k) */
static void push(int k, const double *restrict x, const double *restrict m, double *restrict out) {
    int a = 0;
    memset(out, 0, k * sizeof(double));
    for (; a + 4 <= k; a += 4) {
        const double x0 = x[a], x1 = x[a + 1], x2 = x[a + 2], x3 = x[a + 3];
        const double *restrict m0 = m + a * k, *restrict m1 = m0 + k, *restrict m2 = m1 + k, *restrict m3 = m2 + k;
        for (int b = 0; b < k; b++) out[b] += x0 * m0[b] + x1 * m1[b] + x2 * m2[b] + x3 * m3[b];
    }
    for (; a < k; a++) {
        const double x0 = x[a], *restrict m0 = m + a * k;
        for (int b = 0; b < k; b++) out[b] += x0 * m0[b];
    }
}

/* counts[b, a] += sum over t of alpha[t - 1, a] w[t, b], for t = 1 .. n - 1, four t at a time */
static void outer(int k, i64 n, const double *restrict alpha, const double *restrict w, double *restrict counts) {
    i64 t = 1;
    for (; t + 4 <= n; t += 4) {
        const double *restrict a0 = alpha + (t - 1) * k, *restrict a1 = a0 + k, *restrict a2 = a1 + k, *restrict a3 = a2 + k;
        const double *restrict w0 = w + t * k, *restrict w1 = w0 + k, *restrict w2 = w1 + k, *restrict w3 = w2 + k;
        for (int b = 0; b < k; b++) {
            const double v0 = w0[b], v1 = w1[b], v2 = w2[b], v3 = w3[b];
            double *restrict row = counts + b * k;
            for (int a = 0; a < k; a++) row[a] += a0[a] * v0 + a1[a] * v1 + a2[a] * v2 + a3[a] * v3;
        }
    }
    for (; t < n; t++)
        for (int b = 0; b < k; b++) {
            const double v = w[t * k + b], *restrict before = alpha + (t - 1) * k;
            double *restrict row = counts + b * k;
            for (int a = 0; a < k; a++) row[a] += before[a] * v;
        }
}

/* start (k), transition (k, k), emission (v, k) are replaced by those of the M-step; returns the log-likelihood before */
double em_round(i64 n_sequences, const i64 *offsets, const int *words, int k, int v, double *start, double *transition,
                double *emission) {
    i64 longest = 0;
    for (i64 i = 0; i < n_sequences; i++)
        if (offsets[i + 1] - offsets[i] > longest) longest = offsets[i + 1] - offsets[i];
    double *alpha = malloc(longest * k * sizeof(double)), *w = malloc(longest * k * sizeof(double));
    double *scale = malloc(longest * sizeof(double)), *beta = malloc(k * sizeof(double));
    double *turned = malloc(k * k * sizeof(double));
    double *n_start = calloc(k, sizeof(double)), *n_pairs = calloc(k * k, sizeof(double));
    double *n_words = calloc((size_t)v * k, sizeof(double)), *total = calloc(k, sizeof(double));
    double log_likelihood = 0.0;
    for (int a = 0; a < k; a++)
        for (int b = 0; b < k; b++) turned[b * k + a] = transition[a * k + b];
    for (i64 i = 0; i < n_sequences; i++) {
        const i64 lo = offsets[i], n = offsets[i + 1] - lo;
        double product = 1.0;
        if (n == 0) continue;
        for (i64 t = 0; t < n; t++) {
            double *restrict now = alpha + t * k, sum = 0.0;
            const double *restrict row = emission + (i64)words[lo + t] * k;
            if (t == 0) memcpy(now, start, k * sizeof(double));
            else push(k, now - k, transition, now);
            for (int b = 0; b < k; b++) now[b] *= row[b];
            for (int b = 0; b < k; b++) sum += now[b];
            const double inverse = 1.0 / sum;
            for (int b = 0; b < k; b++) now[b] *= inverse;
            scale[t] = inverse;
            product *= sum;
            if (product < 1e-200) {
                log_likelihood += log(product);
                product = 1.0;
            }
        }
        log_likelihood += log(product);
        for (int b = 0; b < k; b++) beta[b] = 1.0;
        for (i64 t = n - 1; t > 0; t--) {
            const double *restrict row = emission + (i64)words[lo + t] * k, *restrict now = alpha + t * k;
            double *restrict count = n_words + (i64)words[lo + t] * k, *restrict here = w + t * k;
            for (int b = 0; b < k; b++) {
                count[b] += now[b] * beta[b];
                here[b] = row[b] * beta[b] * scale[t];
            }
            push(k, here, turned, beta);
        }
        double *restrict count = n_words + (i64)words[lo] * k;
        for (int b = 0; b < k; b++) {
            count[b] += alpha[b] * beta[b];
            n_start[b] += alpha[b] * beta[b];
        }
        outer(k, n, alpha, w, n_pairs);
    }
    double sum = 0.0;
    for (int b = 0; b < k; b++) sum += n_start[b];
    for (int b = 0; b < k; b++) start[b] = n_start[b] / sum;
    for (int a = 0; a < k; a++) {
        sum = 0.0;
        for (int b = 0; b < k; b++) sum += transition[a * k + b] *= n_pairs[b * k + a];
        for (int b = 0; b < k; b++) transition[a * k + b] /= sum;
    }
    for (i64 x = 0; x < v; x++)
        for (int b = 0; b < k; b++) total[b] += n_words[x * k + b];
    for (int b = 0; b < k; b++) total[b] = 1.0 / total[b];
    for (i64 x = 0; x < v; x++)
        for (int b = 0; b < k; b++) emission[x * k + b] = n_words[x * k + b] * total[b];
    free(alpha), free(w), free(scale), free(beta), free(turned), free(n_start), free(n_pairs), free(n_words), free(total);
    return log_likelihood;
}
