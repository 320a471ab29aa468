/* TLS options. Arguments: the URL of a server with TLS, and the folder of the certificates. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *url, *folder;
static char error[CURL_ERROR_SIZE], body[65536];
static size_t body_len;

static size_t write_body(char *bytes, size_t size, size_t count, void *user)
{
    size_t len = size * count;
    (void)user;
    if (len > sizeof body - 1 - body_len)
        return 0;
    memcpy(body + body_len, bytes, len);
    body_len += len;
    return len;
}

static CURL *new_handle(void)
{
    char path[1024];
    CURL *easy = curl_easy_init();
    snprintf(path, sizeof path, "%s/ca.pem", folder);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_CAINFO, path);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, write_body);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
    return easy;
}

/* Prints the result, and what the server has in its response. */
static void perform(CURL *easy)
{
    CURLcode code;
    char *folder_at;
    error[0] = 0;
    body_len = 0;
    code = curl_easy_perform(easy);
    body[body_len] = 0;
    while ((folder_at = strstr(error, folder)) != NULL)
        memmove(folder_at, folder_at + strlen(folder), strlen(folder_at + strlen(folder)) + 1);
    /* Why a chain is refused depends on the certificates that the server sends. */
    if (code == CURLE_PEER_FAILED_VERIFICATION)
        error[0] = 0;
    printf("%d '%s' %s\n", code, code ? error : "", code ? "" : body);
    curl_easy_cleanup(easy);
}

static void ciphers(void)
{
    static const char *const lists[][2] = {
        {NULL, NULL},
        {"ECDHE-RSA-AES128-GCM-SHA256", NULL},
        {"ECDHE-RSA-AES128-GCM-SHA256:ECDHE-RSA-AES256-GCM-SHA384", NULL},
        {"ECDHE-RSA-CHACHA20-POLY1305,ECDHE-RSA-AES128-GCM-SHA256", NULL},
        {"HIGH:!AES256:!CHACHA20:@STRENGTH", NULL},
        {"unknown:AES256+ECDHE+aRSA", NULL},
        {"DEFAULT:@SECLEVEL=1:!AESGCM", NULL},
        {"unknown", NULL},
        {"", NULL},
        {NULL, "TLS_CHACHA20_POLY1305_SHA256"},
        {NULL, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384"},
        {"ECDHE-RSA-AES128-GCM-SHA256", "TLS_AES_256_GCM_SHA384"},
        {NULL, "unknown"},
        {NULL, "TLS_AES_128_GCM_SHA256:unknown"},
    };
    for (size_t at = 0; at < sizeof lists / sizeof *lists; at++)
        for (int newest = 0; newest < 2; newest++) {
            CURL *easy = new_handle();
            curl_easy_setopt(easy, CURLOPT_SSL_CIPHER_LIST, lists[at][0]);
            curl_easy_setopt(easy, CURLOPT_TLS13_CIPHERS, lists[at][1]);
            curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)(newest
                ? CURL_SSLVERSION_DEFAULT : CURL_SSLVERSION_MAX_TLSv1_2));
            printf("%s %s: ", lists[at][0] ? lists[at][0] : "-", lists[at][1] ? lists[at][1] : "-");
            perform(easy);
        }
}

static void curves(void)
{
    static const char *const lists[] = {
        "X25519", "P-256", "prime256v1", "P-384:X25519", "secp384r1", "P-521:P-256", "unknown",
        "P-256:unknown", "",
    };
    for (size_t at = 0; at < sizeof lists / sizeof *lists; at++) {
        CURL *easy = new_handle();
        curl_easy_setopt(easy, CURLOPT_SSL_EC_CURVES, lists[at]);
        printf("curves %s: ", lists[at]);
        perform(easy);
    }
}

/* A client certificate, its key, their types, and the password of the key. */
static void identities(void)
{
    static const char *const sets[][5] = {
        {"client.pem", "client.key", NULL, NULL, NULL},
        {"client.pem", "client.key", "pem", "PEM", "unused"},
        {"client.der", "client.key.der", "DER", "der", NULL},
        {"client.der", "client.old.der", "DER", "DER", NULL},
        {"client.pem", "client.old.der", "PEM", "DER", NULL},
        {"client.der", "client.aes.key", "DER", NULL, "secret"},
        {"client.pem", "client.aes.key", NULL, NULL, "secret"},
        {"client.pem", "client.des3.key", NULL, NULL, "secret"},
        {"client.pem", "client.scrypt.key", NULL, NULL, "secret"},
        {"client.pem", "client.old.key", NULL, NULL, "secret"},
        {"client.pem", "client.old3.key", NULL, NULL, "secret"},
        {"client.pem", "client.aes.key", NULL, NULL, "wrong"},
        {"client.pem", "client.old.key", NULL, NULL, "wrong"},
        {"client.pem", "client.old3.key", NULL, NULL, ""},
        {"both.pem", NULL, NULL, NULL, "secret"},
        {"both.pem", NULL, NULL, "DER", "secret"},
        {"client.pem", NULL, NULL, NULL, NULL},
        {"client.pem", "ec.key", NULL, NULL, NULL},
        {"client.der", NULL, "DER", NULL, NULL},
        {"client.pem", "absent", NULL, NULL, NULL},
        {"client.pem", "client.pem", NULL, NULL, NULL},
        {"client.pem", "client.key", NULL, "other", NULL},
        {"client.pem", "client.key", NULL, "P12", NULL},
        {"client.pem", "client.key", NULL, "DER", NULL},
        {"client.pem", "client.key", "other", NULL, NULL},
        {NULL, "client.key", NULL, NULL, NULL},
    };
    for (size_t at = 0; at < sizeof sets / sizeof *sets; at++) {
        char cert[1024], key[1024];
        const char *const *set = sets[at];
        CURL *easy = new_handle();
        snprintf(cert, sizeof cert, "%s/%s", folder, set[0] ? set[0] : "");
        snprintf(key, sizeof key, "%s/%s", folder, set[1] ? set[1] : "");
        curl_easy_setopt(easy, CURLOPT_SSLCERT, set[0] ? cert : NULL);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, set[1] ? key : NULL);
        curl_easy_setopt(easy, CURLOPT_SSLCERTTYPE, set[2]);
        curl_easy_setopt(easy, CURLOPT_SSLKEYTYPE, set[3]);
        curl_easy_setopt(easy, CURLOPT_KEYPASSWD, set[4]);
        for (int part = 0; part < 5; part++)
            printf("%s ", set[part] ? set[part] : "-");
        printf(": ");
        perform(easy);
    }
}

/* Files of authorities and revocations that cannot be used. */
static void files(void)
{
    static const char *const sets[][3] = {
        {"absent.pem", NULL, NULL}, {"client.key", NULL, NULL}, {NULL, "absent.pem", NULL},
        {NULL, "client.key", NULL}, {NULL, "revoked.pem", NULL}, {"absent.pem", NULL, "client.pem"},
    };
    for (size_t at = 0; at < sizeof sets / sizeof *sets; at++) {
        char paths[3][1024];
        static const CURLoption options[] = {CURLOPT_CAINFO, CURLOPT_CRLFILE, CURLOPT_SSLCERT};
        CURL *easy = new_handle();
        for (int part = 0; part < 3; part++)
            if (sets[at][part]) {
                snprintf(paths[part], sizeof paths[part], "%s/%s", folder, sets[at][part]);
                curl_easy_setopt(easy, options[part], paths[part]);
            }
        snprintf(paths[0], sizeof paths[0], "%s/client.key", folder);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, paths[0]);
        printf("files %zu: ", at);
        perform(easy);
    }
}

/* The certificate that must have issued the server's, as a file and as a blob. */
static void issuers(void)
{
    static const char *const names[] = {"ca.pem", "client.pem", "absent.pem", "client.key", ""};
    for (size_t at = 0; at < sizeof names / sizeof *names; at++)
        for (int way = 0; way < 3; way++) {
            static char bytes[65536];
            char path[1024];
            struct curl_blob blob = {bytes, 0, CURL_BLOB_COPY};
            FILE *file;
            CURL *easy = new_handle();
            snprintf(path, sizeof path, "%s/%s", folder, names[at]);
            file = fopen(path, "r");
            if (file) {
                blob.len = fread(bytes, 1, sizeof bytes, file);
                fclose(file);
            }
            curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, (long)(way != 2));
            if (way != 1)
                curl_easy_setopt(easy, CURLOPT_ISSUERCERT, *names[at] ? path : "");
            else if (!blob.len)
                bytes[0] = 0, blob.len = 1;
            if (way == 1)
                curl_easy_setopt(easy, CURLOPT_ISSUERCERT_BLOB, &blob);
            printf("issuer %s %d: ", names[at], way);
            perform(easy);
        }
}

/* The server's certificates are trusted themselves, but not their issuer. */
static void partial_chains(void)
{
    for (int way = 0; way < 4; way++) {
        char leaves[1024], list[1024];
        CURL *easy = new_handle();
        snprintf(leaves, sizeof leaves, "%s/%s", folder, way == 3 ? "ca.pem" : "leaves.pem");
        snprintf(list, sizeof list, "%s/revoked.pem", folder);
        curl_easy_setopt(easy, CURLOPT_CAINFO, leaves);
        curl_easy_setopt(easy, CURLOPT_SSL_OPTIONS,
            (long)(way % 2 ? CURLSSLOPT_NO_PARTIALCHAIN : CURLSSLOPT_ALLOW_BEAST));
        curl_easy_setopt(easy, CURLOPT_CRLFILE, way == 2 ? list : NULL);
        printf("partial chains %d: ", way);
        perform(easy);
    }
}

static struct curl_certinfo *certificates_of(CURL *easy)
{
    struct curl_certinfo *found = NULL;
    curl_easy_getinfo(easy, CURLINFO_CERTINFO, &found);
    return found;
}

static size_t count_certificates(char *bytes, size_t size, size_t count, void *easy)
{
    (void)bytes;
    printf("%d ", certificates_of(easy)->num_of_certs);
    return size * count;
}

/* The texts of the server's certificates, of either key: also when a session is resumed, without
   the option, and of a server that is not trusted. */
static void certificates(void)
{
    static const char *const ciphers[] = {
        "ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256",
    };
    for (size_t at = 0; at < sizeof ciphers / sizeof *ciphers; at++)
        for (int way = 0; way < 2; way++) {
            char path[1024];
            struct curl_certinfo *found;
            CURL *easy = new_handle();
            curl_easy_setopt(easy, CURLOPT_SSL_CIPHER_LIST, ciphers[at]);
            curl_easy_setopt(easy, CURLOPT_SSLVERSION, CURL_SSLVERSION_MAX_TLSv1_2);
            curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, count_certificates);
            curl_easy_setopt(easy, CURLOPT_HEADERDATA, easy);
            curl_easy_setopt(easy, CURLOPT_CERTINFO, 1L);
            snprintf(path, sizeof path, "%s/client.pem", folder);
            if (way == 1)
                curl_easy_setopt(easy, CURLOPT_CAINFO, path);
            printf("certificates %s %d:\n", ciphers[at], way);
            for (int round = 0; round < 3; round++) {
                body_len = 0;
                curl_easy_setopt(easy, CURLOPT_CERTINFO, (long)(round < 2));
                printf("code %d, ", curl_easy_perform(easy));
                found = certificates_of(easy);
                printf("%d certificates\n", found->num_of_certs);
                for (int nth = 0; nth < found->num_of_certs; nth++)
                    for (struct curl_slist *line = found->certinfo[nth]; line; line = line->next)
                        printf("%s\n", line->data);
            }
            curl_easy_reset(easy);
            printf("reset: %d\n", certificates_of(easy)->num_of_certs);
            curl_easy_cleanup(easy);
        }
}

/* The environment does not replace the trusted certificates. */
static void environment(void)
{
    char path[1024];
    CURL *easy = new_handle();
    printf("# environment\n");
    snprintf(path, sizeof path, "%s/ca.pem", folder);
    setenv("SSL_CERT_FILE", path, 1);
    setenv("SSL_CERT_DIR", folder, 1);
    curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
    printf("trusted by it: %d\n", curl_easy_perform(easy) == CURLE_OK);
    curl_easy_cleanup(easy);
}

/* The file of SSLKEYLOGFILE is opened by the first initialization, and closed by the last cleanup. */
static void key_log(const char *path)
{
    static const long versions[] = {CURL_SSLVERSION_MAX_TLSv1_2, CURL_SSLVERSION_MAX_TLSv1_3};
    char line[1024], *end;
    FILE *file;
    for (size_t at = 0; at < sizeof versions / sizeof *versions; at++) {
        CURL *easy;
        remove(path);
        setenv("SSLKEYLOGFILE", path, 1);
        curl_global_init(CURL_GLOBAL_ALL);
        setenv("SSLKEYLOGFILE", folder, 1); /* too late, and no file */
        file = fopen(path, "r");
        printf("before: %d\n", file != NULL && fgetc(file) == EOF);
        if (file)
            fclose(file);
        easy = new_handle();
        curl_easy_setopt(easy, CURLOPT_SSLVERSION, versions[at]);
        perform(easy);
        curl_global_cleanup();
        file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file)) {
            if ((end = strchr(line, ' ')) != NULL)
                printf("%.*s %d\n", (int)(end - line), line, (int)strlen(end));
        }
        if (file)
            fclose(file);
    }
    /* A file that cannot be opened is ignored. */
    curl_global_init(CURL_GLOBAL_ALL);
    perform(new_handle());
    curl_global_cleanup();
}

int main(int count, char **arguments)
{
    if (count < 3)
        return 1;
    url = arguments[1];
    folder = arguments[2];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count > 3) {
        key_log(arguments[3]);
        return 0;
    }
    curl_global_init(CURL_GLOBAL_ALL);
    ciphers();
    curves();
    identities();
    files();
    issuers();
    partial_chains();
    certificates();
    environment();
    return 0;
}
