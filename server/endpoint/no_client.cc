// A static build: Debian's libcurl needs shared libraries.
#include "server/endpoint/http_client.h"

namespace varifocal {

std::unique_ptr<HttpClient> MakeHttpClient() { return nullptr; }

}  // namespace varifocal
