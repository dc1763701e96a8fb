// Part of wholly static programs alone: host names are looked up in /etc/hosts and DNS. What /etc/nsswitch.conf may name
// besides are shared libraries for the machine's own glibc, which a program that contains another glibc cannot load.
#include <nss.h>

namespace {

const int kHostsStatus = __nss_configure_lookup("hosts", "files dns");
const int kServicesStatus = __nss_configure_lookup("services", "files");

}  // namespace
