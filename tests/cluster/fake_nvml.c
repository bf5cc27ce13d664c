// SPDX-License-Identifier: Apache-2.0
// A fake of NVIDIA's management library: as many GPUs as FAKE_GPUS says, half of them on each NUMA node; with
// FAKE_NVLINK they are linked to each other.
#include <stdlib.h>

static int gpus(void) {
    const char* count = getenv("FAKE_GPUS");
    return count ? atoi(count) : 0;
}

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned* count);
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device);
int nvmlDeviceGetP2PStatus(void* a, void* b, int capability, int* status);
int nvmlDeviceGetTopologyCommonAncestor(void* a, void* b, int* level);

static char devices[1024];

int nvmlInit_v2(void) { return gpus() > 0 ? 0 : 9; }  // NVML_ERROR_DRIVER_NOT_LOADED
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
    *count = (unsigned)gpus();
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    *device = &devices[index];
    return 0;
}
int nvmlDeviceGetP2PStatus(void* a, void* b, int capability, int* status) {
    *status = a != b && capability == 2 && getenv("FAKE_NVLINK") ? 0 : 5;
    return 0;
}
int nvmlDeviceGetTopologyCommonAncestor(void* a, void* b, int* level) {
    const long half = gpus() / 2;
    *level = ((char*)a - devices) / half == ((char*)b - devices) / half ? 40 : 50;
    return 0;
}
