/* SHA-256 of FIPS 180-4, of bytes that come piece by piece. */
#include "internal.h"

#include <string.h>

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
    0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
    0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2,
};
static const uint32_t start[8] = {
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
};

static uint32_t turned(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static void add_block(tt_sha256 *sha)
{
    uint32_t w[16], s[8];

    memcpy(s, sha->state, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t *word = &w[i % 16], first, second;
        if (i < 16) {
            const uint8_t *b = sha->block + 4 * i;
            *word = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
        } else {
            uint32_t a = w[(i + 1) % 16], e = w[(i + 14) % 16];
            *word += (turned(a, 7) ^ turned(a, 18) ^ a >> 3) + w[(i + 9) % 16] +
                     (turned(e, 17) ^ turned(e, 19) ^ e >> 10);
        }
        first = s[7] + (turned(s[4], 6) ^ turned(s[4], 11) ^ turned(s[4], 25)) +
                ((s[4] & s[5]) ^ (~s[4] & s[6])) + constants[i] + *word;
        second = (turned(s[0], 2) ^ turned(s[0], 13) ^ turned(s[0], 22)) +
                 ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        for (int k = 7; k > 0; k--)
            s[k] = s[k - 1];
        s[4] += first;
        s[0] = first + second;
    }
    for (int i = 0; i < 8; i++)
        sha->state[i] += s[i];
}

void tt_sha256_begin(tt_sha256 *sha)
{
    memcpy(sha->state, start, sizeof start);
    sha->bytes = 0;
}

void tt_sha256_add(tt_sha256 *sha, const void *bytes, uint32_t n)
{
    for (const uint8_t *byte = bytes; n; n--) {
        sha->block[sha->bytes++ % 64u] = *byte++;
        if (sha->bytes % 64u == 0)
            add_block(sha);
    }
}

/* The digest as 64 hexadecimal digits. */
void tt_sha256_end(tt_sha256 *sha, uint8_t *text)
{
    uint32_t bytes = sha->bytes;
    uint8_t byte = 0x80;

    tt_sha256_add(sha, &byte, 1);
    for (byte = 0; sha->bytes % 64u != 56u;)
        tt_sha256_add(sha, &byte, 1);
    for (int i = 7; i >= 0; i--) { /* the number of bits */
        byte = (uint8_t)((uint64_t)bytes * 8u >> 8 * i);
        tt_sha256_add(sha, &byte, 1);
    }
    for (int i = 0; i < 64; i++)
        text[i] = (uint8_t) "0123456789abcdef"[sha->state[i / 8] >> (28 - i % 8 * 4) & 15u];
}
