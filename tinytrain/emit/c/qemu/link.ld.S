/* Memory of a microcontroller: RAM_KB of RAM, of which STACK_KB for the stack, and FLASH_KB of flash. What does
 * not fit is an error of the linker. The stack lies lowest, above a guard. The images of the example, which a
 * camera would bring, lie behind the flash. */
ENTRY(reset)

MEMORY
{
    FLASH (rx) : ORIGIN = 0x00000000, LENGTH = FLASH_KB * 1024
    IMAGES (r) : ORIGIN = FLASH_KB * 1024, LENGTH = (4096 - FLASH_KB) * 1024
    RAM (rw) : ORIGIN = 0x20000000, LENGTH = RAM_KB * 1024
}

SECTIONS
{
    .images : { *(.rodata.tt_example_support*) *(.rodata.tt_example_query) } > IMAGES
    .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) . = ALIGN(4); } > FLASH
    .ARM.exidx : { *(.ARM.exidx*) } > FLASH
    .stack (NOLOAD) :
    {
        stack_guard = .;
        . += 32;
        stack_bottom = .;
        . += STACK_KB * 1024;
        stack_top = .;
    } > RAM
    .data : { data_start = .; *(.data*) . = ALIGN(4); data_end = .; } > RAM AT > FLASH
    data_load = LOADADDR(.data);
    .bss (NOLOAD) : { bss_start = .; *(.bss*) *(COMMON) . = ALIGN(4); bss_end = .; } > RAM
}
