/*
 * The system's authorities. Reading them takes tens of milliseconds and a megabyte, so all contexts share one store
 * until the files change.
 */
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../base/check.h"
#include "../base/log.h"
#include "tls_private.h"

static void stamp_path(EVP_MD_CTX *digest, const char *path)
{
	struct stat status;
	EVP_DigestUpdate(digest, path, strlen(path) + 1);
	if (stat(path, &status) != 0)
		return;
	const uint64_t facts[] = { status.st_dev, status.st_ino, (uint64_t)status.st_size, (uint64_t)status.st_mtim.tv_sec,
				   (uint64_t)status.st_mtim.tv_nsec };
	EVP_DigestUpdate(digest, facts, sizeof(facts));
}

void tls_system_store_stamp(unsigned char stamp[32])
{
	EVP_MD_CTX *digest = EVP_MD_CTX_new();
	CHECK(digest != NULL && EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1);
	const char *file = secure_getenv(X509_get_default_cert_file_env());
	const char *folders = secure_getenv(X509_get_default_cert_dir_env());
	stamp_path(digest, file != NULL ? file : X509_get_default_cert_file());
	char *list = xstrdup(folders != NULL ? folders : X509_get_default_cert_dir()), *rest = NULL;
	for (char *folder = strtok_r(list, ":", &rest); folder != NULL; folder = strtok_r(NULL, ":", &rest))
		stamp_path(digest, folder);
	free(list);
	CHECK(EVP_DigestFinal_ex(digest, stamp, NULL) == 1);
	EVP_MD_CTX_free(digest);
}

X509_STORE *tls_system_store(void)
{
	static X509_STORE *store; /* for the life of the process, or until it is out of date */
	static unsigned char stamp_of_store[32];
	unsigned char stamp[32];
	tls_system_store_stamp(stamp);
	if (store != NULL && memcmp(stamp, stamp_of_store, sizeof(stamp)) == 0)
		return store;
	X509_STORE_free(store);
	store = X509_STORE_new();
	CHECK(store != NULL);
	memcpy(stamp_of_store, stamp, sizeof(stamp));
	ERR_clear_error();
	if (X509_STORE_set_default_paths(store) != 1) /* heeds SSL_CERT_FILE and SSL_CERT_DIR */
		log_message(LOG_WARN, "tls", "the system's certificate store can't be read: %s",
			    ERR_reason_error_string(ERR_peek_error()));
	ERR_clear_error();
	return store;
}
