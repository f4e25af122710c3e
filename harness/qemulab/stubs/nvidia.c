// SPDX-License-Identifier: GPL-2.0
/*
 * Stub of the "nvidia" module: its name, parameters, devices and files under /proc, no GPU.
 *
 * As in the real driver the NVreg_ parameters have permission 0, so they appear in
 * /proc/driver/nvidia/params without their prefix and not under /sys/module. hil_cards is the
 * stub's own and readable there.
 */
#include <linux/cdev.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/version.h>

#define HIL_MAJOR 195 /* assigned to NVIDIA in the kernel's device list */
#define HIL_CONTROL 255
#define HIL_MOST 8

static unsigned int NVreg_DeviceFileMode = 0666;
module_param(NVreg_DeviceFileMode, uint, 0);
static unsigned int NVreg_EnableMSI = 1;
module_param(NVreg_EnableMSI, uint, 0);
static unsigned int NVreg_NvLinkDisable;
module_param(NVreg_NvLinkDisable, uint, 0);
static char *NVreg_RegistryDwords = "";
module_param(NVreg_RegistryDwords, charp, 0);

static unsigned int hil_cards = 1;
module_param(hil_cards, uint, 0444);
MODULE_PARM_DESC(hil_cards, "device nodes to make, 0 to 8 (of this stub, not of the real driver)");

unsigned int hil_nvidia_rm(void)
{
	return NVreg_NvLinkDisable;
}
EXPORT_SYMBOL_GPL(hil_nvidia_rm);

static int hil_open(struct inode *inode, struct file *file)
{
	return 0;
}

static ssize_t hil_read(struct file *file, char __user *to, size_t count, loff_t *at)
{
	static const char said[] = "hil stub of an NVIDIA device\n";

	return simple_read_from_buffer(to, count, at, said, sizeof(said) - 1);
}

static const struct file_operations hil_device = {
	.owner = THIS_MODULE,
	.open = hil_open,
	.read = hil_read,
};

static int hil_params(struct seq_file *out, void *unused)
{
	seq_printf(out, "DeviceFileMode: %u\n", NVreg_DeviceFileMode);
	seq_printf(out, "EnableMSI: %u\n", NVreg_EnableMSI);
	seq_printf(out, "NvLinkDisable: %u\n", NVreg_NvLinkDisable);
	seq_printf(out, "RegistryDwords: \"%s\"\n", NVreg_RegistryDwords);
	return 0;
}

static int hil_version(struct seq_file *out, void *unused)
{
	seq_puts(out, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  " HIL_RELEASE
		      "  Release Build  (hil stub, drives no GPU)\n");
	seq_puts(out, "GCC version:  gcc version " __VERSION__ "\n");
	return 0;
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0)
static char *hil_node(const struct device *device, umode_t *mode)
#else
static char *hil_node(struct device *device, umode_t *mode)
#endif
{
	if (mode)
		*mode = NVreg_DeviceFileMode & 0777;
	return NULL;
}

static struct cdev hil_cdev;
static struct class *hil_class;
static struct proc_dir_entry *hil_proc;

static int hil_make(unsigned int minor, const char *name)
{
	struct device *made;

	made = device_create(hil_class, NULL, MKDEV(HIL_MAJOR, minor), NULL, "%s", name);
	return PTR_ERR_OR_ZERO(made);
}

static void hil_remove_devices(void)
{
	unsigned int minor;

	for (minor = 0; minor < HIL_MOST; minor++)
		device_destroy(hil_class, MKDEV(HIL_MAJOR, minor));
	device_destroy(hil_class, MKDEV(HIL_MAJOR, HIL_CONTROL));
}

static int hil_make_devices(void)
{
	unsigned int minor;
	char name[16];
	int bad = hil_make(HIL_CONTROL, "nvidiactl");

	for (minor = 0; !bad && minor < hil_cards; minor++) {
		snprintf(name, sizeof(name), "nvidia%u", minor);
		bad = hil_make(minor, name);
	}
	if (bad)
		hil_remove_devices();
	return bad;
}

static int hil_register(void)
{
	int bad = register_chrdev_region(MKDEV(HIL_MAJOR, 0), 256, "nvidia");

	if (bad)
		return bad;
	cdev_init(&hil_cdev, &hil_device);
	hil_cdev.owner = THIS_MODULE;
	bad = cdev_add(&hil_cdev, MKDEV(HIL_MAJOR, 0), 256);
	if (bad)
		unregister_chrdev_region(MKDEV(HIL_MAJOR, 0), 256);
	return bad;
}

static void hil_unregister(void)
{
	cdev_del(&hil_cdev);
	unregister_chrdev_region(MKDEV(HIL_MAJOR, 0), 256);
}

static int hil_make_class(void)
{
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 4, 0)
	hil_class = class_create("nvidia");
#else
	hil_class = class_create(THIS_MODULE, "nvidia");
#endif
	if (IS_ERR(hil_class))
		return PTR_ERR(hil_class);
	hil_class->devnode = hil_node;
	return 0;
}

static int hil_make_proc(void)
{
	hil_proc = proc_mkdir("driver/nvidia", NULL);
	if (!hil_proc)
		return -ENOMEM;
	if (proc_create_single("params", 0444, hil_proc, hil_params) &&
	    proc_create_single("version", 0444, hil_proc, hil_version))
		return 0;
	proc_remove(hil_proc);
	return -ENOMEM;
}

static int __init hil_init(void)
{
	int bad;

	if (hil_cards > HIL_MOST)
		return -EINVAL;
	bad = hil_register();
	if (bad)
		return bad;
	bad = hil_make_class();
	if (bad)
		goto registered;
	bad = hil_make_proc();
	if (bad)
		goto classed;
	bad = hil_make_devices();
	if (bad)
		goto shown;
	pr_info("nvidia: stub loaded NVreg_NvLinkDisable=%u\n", NVreg_NvLinkDisable);
	return 0;
shown:
	proc_remove(hil_proc);
classed:
	class_destroy(hil_class);
registered:
	hil_unregister();
	return bad;
}

static void __exit hil_exit(void)
{
	hil_remove_devices();
	proc_remove(hil_proc);
	class_destroy(hil_class);
	hil_unregister();
	pr_info("nvidia: stub unloaded\n");
}

module_init(hil_init);
module_exit(hil_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("hil stub of the nvidia module, drives no GPU");
MODULE_VERSION(HIL_RELEASE "-hil-stub");
