// One of the libraries that device_search_test loads: counts itself and those it needs.
#ifdef UNLATCH_NEEDS
extern "C" int UNLATCH_NEEDS();
#endif

extern "C" int UNLATCH_NAME() {
#ifdef UNLATCH_NEEDS
  return 1 + UNLATCH_NEEDS();
#else
  return 1;
#endif
}
